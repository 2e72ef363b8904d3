//! Tests a strategy from Rust: mock sessions, files in memory, virtual time; then the strategy's own tests in Lua.
//!
//! `cargo run --example test_a_strategy --features test-util`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use refrain::config::orchestrator_manifest::OrchestratorManifest;
use refrain::domain::ParamValue;
use refrain::script::port::ChecksReport;
use refrain::script::{ScriptEnd, ScriptLimits, ScriptSource};
use refrain::testing::{MockSession, MockSetup, MockWorld, TestOptions, run_dir};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let refine = Path::new(env!("CARGO_MANIFEST_DIR")).join("orchestrators/refine");

    // Each session takes an hour of virtual time; the second one leaves what the check wants.
    let world = MockWorld::new(MockSetup {
        sessions: Some(Box::new(|_call, number, _files| {
            let session = MockSession::saying("done").taking(Duration::from_secs(3600));
            Ok(if number == 2 { session.leaving("fixed.txt", "yes") } else { session })
        })),
        checks: Some(Box::new(|files| {
            let ok = files.all().contains_key("fixed.txt");
            let output = if ok { String::new() } else { "fixed.txt is missing".to_owned() };
            Ok(ChecksReport { ok, output, ..ChecksReport::default() })
        })),
        ..MockSetup::default()
    });
    let mut inputs = world.inputs("Fix it.");
    // What is not given gets its default from the manifest, as in a run.
    let given = BTreeMap::from([("max_rounds".to_owned(), ParamValue::Int(5))]);
    inputs.params = OrchestratorManifest::from_dir(&refine)?.complete_params(given)?;
    let script = ScriptSource::from_dir(&refine, "runner.lua")?;
    let outcome = world.play(&script, inputs, ScriptLimits::default());
    let report = world.report();
    println!("{} sessions in {} virtual hours", report.sessions.len(), report.elapsed.as_secs() / 3600);
    assert!(matches!(outcome.end, ScriptEnd::Returned { .. }), "{outcome:?}");
    assert_eq!(report.sessions.len(), 2);
    assert!(report.sessions[1].0.prompt.contains("fixed.txt is missing"));

    let tests = run_dir(&refine, &TestOptions::default())?;
    println!("{} tests in Lua passed, {} failed", tests.passed(), tests.failed());
    if tests.ok() { Ok(()) } else { Err(format!("{tests:#?}").into()) }
}
