//! The reference and the types are those of the table, and the table is what is installed.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use refrain::script::api::{functions, members};
use refrain::script::check::{Severity, check_text};
use refrain::script::mock::{MockSetup, MockWorld};
use refrain::script::reference::{reference, types};
use refrain::script::{ScriptEnd, ScriptLimits, ScriptSource};

/// A file and what makes its text.
type Generated = (&'static str, fn() -> String);

const GENERATED: &[Generated] = &[("docs/reference/lua.md", reference), ("lua-stdlib/types.d.luau", types)];

#[test]
fn the_generated_files_are_up_to_date() {
    for (path, generate) in GENERATED {
        let on_disk = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap_or_default();
        assert!(
            on_disk == generate(),
            "{path} is stale; write it with `cargo test --test script_reference -- --ignored write`"
        );
    }
}

#[test]
#[ignore = "writes the generated files"]
fn write() {
    for (path, generate) in GENERATED {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, generate()).unwrap();
    }
}

#[test]
fn what_is_installed_is_what_is_described() {
    let modules: BTreeSet<&str> =
        functions().map(|function| function.module).filter(|module| !["", "test"].contains(module)).collect();
    let mut code = "local out = {}\nlocal function keys(t) local list = {} for key in pairs(t) do table.insert(list, key) end return list end\n".to_owned();
    for module in &modules {
        let table = if ["deadline", "log"].contains(module) {
            (*module).to_owned()
        } else {
            format!("require('@std/{module}')")
        };
        writeln!(code, "out['{module}'] = keys({table})").unwrap();
    }
    code.push_str("assert(type(session) == 'function')\nreturn out");
    let world = MockWorld::new(MockSetup::default());
    let outcome = world.play(&ScriptSource::from_text("runner.lua", code), world.inputs(""), ScriptLimits::default());
    let ScriptEnd::Returned { value, .. } = outcome.end else { panic!("{outcome:?}") };
    let installed: BTreeMap<String, BTreeSet<String>> = serde_json::from_value(value).unwrap();
    for module in modules {
        let described: BTreeSet<String> = members(module).map(str::to_owned).collect();
        assert_eq!(installed[module], described, "{module}");
    }
    let files = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("lua-stdlib")).unwrap();
    let files: BTreeSet<String> = files
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.strip_suffix(".lua").map(str::to_owned))
        .collect();
    let modules: BTreeSet<String> = functions()
        .map(|function| function.module.to_owned())
        .filter(|module| !["", "deadline", "log"].contains(&module.as_str()))
        .collect();
    assert_eq!(files, modules, "every module has a description");
}

#[test]
fn every_example_compiles_and_calls_what_exists() {
    for function in functions() {
        let module = function.module;
        let require = if ["", "deadline", "log"].contains(&module) {
            String::new()
        } else {
            format!("local {} = require(\"@std/{module}\")\n", if module == "test" { "t" } else { module })
        };
        // Names that examples take from their surroundings.
        let around = "local last, report, best, copy, round, first, name, sessions, reports, run, checks, stop\n";
        let text = format!("{around}{require}do\n{}\nend", function.example);
        let alone = format!("{around}{require}local _ = {}", function.example.split(" -- ").next().unwrap());
        let errors = |text: &str| {
            let found = check_text("example.lua", text).into_iter().filter(|found| found.severity == Severity::Error);
            found.map(|found| found.message).collect::<Vec<_>>()
        };
        let wrong = errors(&text);
        // An example may be an expression alone.
        assert!(wrong.is_empty() || errors(&alone).is_empty(), "{module}.{}: {wrong:?}", function.name);
        assert!(!function.doc.is_empty() && function.doc.ends_with('.'), "{module}.{}", function.name);
    }
}
