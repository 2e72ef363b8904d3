use std::path::Path;

use super::*;
use test_case::test_case;

fn messages(text: &str) -> Vec<String> {
    check_text("runner.lua", text).into_iter().map(|found| format!("{}: {}", found.line, found.message)).collect()
}

#[test_case("local checks = require('@std/checks')\nif checks.run().ok then session(task.prompt) end"; "plain")]
#[test_case("local t = { name = 1, [2] = 3, session = session }\nreturn t"; "table fields")]
#[test_case("type Pair = { left: number, right: string }\nlocal function f(x: Pair): number return x.left end\nreturn f"; "types")]
#[test_case("for i, name in ipairs({}) do print(i, name) end"; "loop")]
#[test_case("return `a {task.id} b`"; "interpolation")]
#[test_case("local s = session('x')\nreturn s.text:upper():find('x', 1, true)"; "methods")]
#[test_case("local workspace = require('@std/workspace')\nreturn workspace.main:read('x')"; "handle")]
#[test_case("local _unused = 1"; "underscore")]
#[test_case("local a, b = require('@std/checks'), require('@std/fork')\nreturn a.run().ok, b.create()"; "two modules")]
#[test_case("session(task.prompt, { label = 'a' .. 1, timeout = params.t, max_cost = if task.id == 'x' then 1 else 2, role = 'review' })"; "options")]
#[test_case("local last\nfor i = 1, 2 do last = session('x', { continue = last }) end\nreturn { note = last.reason }"; "results")]
#[test_case("local last = session('x') or {}\nreturn last.anything"; "not only a result")]
#[test_case("local a = session('x')\nlocal function f(a) return a.b end\nreturn f(a)"; "a parameter of the same name")]
#[test_case("local parallel = require('@std/parallel')\nreturn parallel.map({ 1 }, function(i) local a, b = i, 2 if a then return a, b else return session('x', { label = `{i}, {b}` }) end end, { width = 2 })"; "functions as arguments")]
#[test_case("local t = require('@std/test')\nt.test('x', function()\n t.run{ sessions = function(call) return { text = call.prompt } end, checks = { { ok = false }, true } }\nend)"; "tests")]
#[test_case("local text = require('@std/text')\nlocal function f(text) return text.anything end\nreturn f(text.trim('x'))"; "a parameter named like a module")]
#[test_case("local own\nfunction own() own = 1 end\nreturn { own = own }"; "own local function")]
#[test_case("log.info('x')\nprint(1, 2, 3)\nlocal l = log\nreturn l"; "log")]
fn silent(text: &str) {
    assert_eq!(messages(text), Vec::<String>::new());
}

#[test_case("sesion('x')", "1: unknown global `sesion`; did you mean `session`?"; "global")]
#[test_case("\nreturn task.promt", "2: `task` has no field `promt`; did you mean `prompt`?"; "task field")]
#[test_case("return string.fnd('a')", "1: `string` has no field `fnd`; did you mean `find`?"; "library field")]
#[test_case("os.execute('x')", "1: `os.execute` does not exist in scripts: os has only time and clock; run commands with @std/exec"; "removed")]
#[test_case("io.open('x')", "1: `io` does not exist in scripts: read with @std/workspace, write below `.refrain/` with workspace.write"; "removed library")]
#[test_case("local c = require('@std/checks')\nc.rum()", "2: `@std/checks` has no `rum`; did you mean `run`?"; "module field")]
#[test_case("local c = require('@std/cheks')\nc.run()", "1: there is no `@std/cheks`; did you mean `checks`?"; "module")]
#[test_case("local x = 1", "1: `x` is never used; begin its name with `_` if that is meant"; "unused")]
#[test_case("return `a {tsk.id} b`", "1: unknown global `tsk`; did you mean `task`?"; "inside a string")]
#[test_case("session('x', { labl = 'a' })", "1: session: unknown option `labl`; did you mean `label`?"; "option")]
#[test_case("session('x', {\n  ['timout'] = 3 })", "2: session: unknown option `timout`; did you mean `timeout`?"; "option in brackets")]
#[test_case("session('x', { timeout = '60' })", "1: session: option `timeout` must be a finite number of seconds, 0 or more, got string"; "type of an option")]
#[test_case("session('x', { timeout = -1 })", "1: session: option `timeout` must be a finite number of seconds, 0 or more, got -1"; "negative")]
#[test_case("session('x', { role = 'reviewer' })", "1: session: option `role` must be one of implementation, review, got `reviewer`; did you mean `review`?"; "choice")]
#[test_case("session('x', { 'label' })", "1: session: option names are strings, got a number"; "unnamed option")]
#[test_case("session({ prompt = 'x' })", "1: session: argument 1 (prompt) must be a string of valid UTF-8 without NUL, got table"; "argument")]
#[test_case("session()", "1: session: argument 1 (prompt) must be a string of valid UTF-8 without NUL, got nil"; "no argument")]
#[test_case("session('x', nil, 3)", "1: session: takes 2 arguments, got 3"; "too many")]
#[test_case("local f = require('@std/fork')\nf.each(0.5, function() return 1, 2 end)", "2: fork.each: argument 1 (n) must be a whole number from 1 to 100, got 0.5"; "fraction")]
#[test_case("local checks = require('@std/checks')\nchecks.run{ worksapce = nil }", "2: checks.run: unknown option `worksapce`; did you mean `workspace`?"; "braces alone")]
#[test_case("local t = require('@std/test')\nt.run{ checks = function() return true end, promt = 'x' }", "2: test.run: unknown option `promt`; did you mean `prompt`?"; "world of a test")]
#[test_case("log('x')", "1: `log` is a table, not a function: say `log.info(…)`"; "log called")]
#[test_case("local c = require('@std/checks')\nc()", "2: `c` is a table, not a function: say `c.run(…)`"; "module called")]
#[test_case("return task()", "1: `task` is a table of values, not a function"; "values called")]
#[test_case("local a, c = require('@std/fork'), require('@std/checks')\nreturn c.rnu(), a.create", "2: `@std/checks` has no `rnu`; did you mean `run`?"; "second of two modules")]
#[test_case("return require('@std/checks').rnu()", "1: `@std/checks` has no `rnu`; did you mean `run`?"; "module at once")]
#[test_case("local last = session('x')\nlast = session('y')\nreturn last.txt", "3: `Session` has no field `txt`; did you mean `text`?"; "field of a result")]
#[test_case("local s = session('x')\nif s.text == 'a' then s.text = 'y' end", "2: `s` is frozen, so `s.text` cannot be written; write to a table of your own"; "field of a result written")]
#[test_case("task.prompt = 'y'", "1: `task` is frozen, so `task.prompt` cannot be written; write to a table of your own"; "field of the host written")]
#[test_case("own = 1\nreturn own", "1: `own` is written as a global; put `local` before where it begins"; "global")]
#[test_case("function own() end\nreturn own", "1: `own` is written as a global; put `local` before where it begins"; "global function")]
#[test_case("task = 1", "1: `task` is the host's: writing it hides it from the whole script; take another name"; "global of the host")]
fn told(text: &str, expected: &str) {
    assert_eq!(messages(text), [expected]);
}

#[test]
fn a_text_that_does_not_compile_is_shown_with_a_caret() {
    let found = check_text("runner.lua", "local x = 1\nlocal y = = 2").remove(0);
    assert_eq!((found.line, found.severity), (2, Severity::Error));
    assert!(found.snippet.is_some_and(|snippet| snippet.contains("2 | local y = = 2")));
}

#[test]
fn the_built_in_orchestrators_are_clean() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("orchestrators");
    for entry in std::fs::read_dir(root).expect("the folder is there") {
        let folder = entry.expect("readable").path();
        assert_eq!(check_dir(&folder).expect("readable"), [], "{}", folder.display());
    }
}

#[test]
fn parameters_are_those_of_the_manifest() {
    let folder = tempfile::tempdir().expect("temporary folder");
    std::fs::write(folder.path().join("orchestrator.toml"), "slug = 'x'\n[params]\nrounds = 3\n").expect("writes");
    std::fs::write(folder.path().join("runner.lua"), "return params.round").expect("writes");
    let found = check_dir(folder.path()).expect("readable");
    assert_eq!(found[0].message, "`params` has no field `round`; did you mean `rounds`?");
}

/// Checks a folder with these files beside a manifest.
fn in_folder(files: &[(&str, &str)]) -> Vec<String> {
    let folder = tempfile::tempdir().expect("temporary folder");
    std::fs::write(folder.path().join("orchestrator.toml"), "slug = 'x'\napi = 1\n").expect("writes");
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).expect("writes");
    }
    let found = check_dir(folder.path()).expect("readable");
    found
        .into_iter()
        .map(|found| format!("{}:{}: {:?}: {}", found.file, found.line, found.severity, found.message))
        .collect()
}

#[test_case("session(task.prompt)\n", &["runner.lua:1: Warning: nothing is returned, so the results show no note; end the script with `return { note = … }`"]; "nothing")]
#[test_case("local f = function() return 1 end\nf()", &["runner.lua:2: Warning: nothing is returned, so the results show no note; end the script with `return { note = … }`"]; "a return inside a function")]
#[test_case("return { notes = 'x', rounds = 1 }", &["runner.lua:1: Warning: `notes` in what is returned means nothing to the host; did you mean `note`?"]; "misspelt")]
#[test_case("if task.id == 'x' then return { rounds = 1,\n nota = 'x' } end\nreturn { note = 'y' }", &["runner.lua:2: Warning: `nota` in what is returned means nothing to the host; did you mean `note`?"]; "one of two")]
#[test_case("return { note = 3 }", &["runner.lua:1: Warning: `note` in what is returned must be a string: it is shown with the results"]; "no text")]
#[test_case("return { note = if task.id == 'x' then 'a' else 'b', notes = { 1 }, votes = 3 }", &[]; "a note is there")]
#[test_case("return { votes = 3 }", &[]; "another word")]
#[test_case("local x = if task.id == 'a' then 1 else if task.id == 'b' then 2 else 3\nif x then x = 4 else x = 5 end\nreturn x", &[]; "ifs of both kinds")]
fn what_a_runner_returns(text: &str, expected: &[&str]) {
    assert_eq!(in_folder(&[("runner.lua", text)]), expected);
}

#[test]
fn a_module_must_return_and_a_test_need_not() {
    let found = in_folder(&[
        ("runner.lua", "return require('./part')"),
        ("part.lua", "local function f() return 1 end\nf()"),
        ("a_test.lua", "local t = require('@std/test')\nt.test('x', function() t.run() end)"),
    ]);
    let wanted = "nothing is returned, and `require` refuses a file without a value; end it with `return`";
    assert_eq!(found, [format!("part.lua:2: Error: {wanted}")]);
}

#[test]
fn a_review_is_asked_for_in_so_many_words() {
    assert!(asks_for_review("session('x', { label = 'a', role = \"review\" })"));
    assert!(!asks_for_review("-- role = 'review'\nsession('x', { role = 'implementation' })"));
}
