//! The mock world and the engine answer a script alike: every script below `tests/lua/conformance` runs in both, and what
//! it sees must be what its header says, in both.
//!
//! The engine runs through the public [`refrain::host::Host`], with the local runtime and the `scripted` harness: real
//! processes, a real git repository, real files.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

mod case;
mod engine;
mod mock;

use std::fs;
use std::path::{Path, PathBuf};

use case::{Case, Observed};

fn scripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lua/conformance");
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Says how two worlds, or a world and the header, differ; empty where they do not.
fn difference(left: (&str, &Observed), right: (&str, &Observed)) -> String {
    let mut out = String::new();
    let lines = left.1.log.len().max(right.1.log.len());
    for at in 0..lines {
        let (one, other) = (left.1.log.get(at), right.1.log.get(at));
        if one != other {
            out.push_str(&format!("\n  line {}\n    {}: {one:?}\n    {}: {other:?}", at + 1, left.0, right.0));
        }
    }
    if left.1.end != right.1.end {
        out.push_str(&format!("\n  end\n    {}: {}\n    {}: {}", left.0, left.1.end, right.0, right.1.end));
    }
    out
}

async fn conform(path: &Path) -> Option<String> {
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let case = Case::read(path);
    let dir = tempfile::tempdir().unwrap();
    case.write_orchestrator(&dir.path().join("orchestrator"));
    let expected = Observed { log: case.log.lines().map(str::to_owned).collect(), end: case.end.clone() };
    let mock = mock::play(&case, &dir.path().join("orchestrator"));
    let engine = engine::run(&case, dir.path()).await;
    let wrong = difference(("mock", &mock), ("header", &expected)) + &difference(("engine", &engine), ("mock", &mock));
    (!wrong.is_empty()).then(|| format!("{name}: {}{wrong}", case.about))
}

/// One thread for the engine: calls that branches make at the same time are then answered in the order in which they were
/// made, as the mock world does it, so that sessions have the same numbers.
#[test]
fn both_worlds_answer_alike() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut wrong = Vec::new();
    let scripts = scripts();
    assert!(scripts.len() >= 25, "{}", scripts.len());
    for path in &scripts {
        wrong.extend(runtime.block_on(conform(path)));
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Every function of the API is called by one of the scripts, whatever name its module was given there.
#[test]
fn every_function_of_the_api_is_covered() {
    let all: String = scripts().iter().map(|path| Case::read(path).script).collect();
    let missing: Vec<String> = refrain::script::api::functions()
        .filter(|function| function.module != "test")
        .map(|function| match function.module {
            "" => format!("{}(", function.name),
            module => format!("{module}.{}", function.name),
        })
        .filter(|call| !all.contains(call.as_str()))
        .collect();
    assert!(missing.is_empty(), "no script calls {missing:?}");
}
