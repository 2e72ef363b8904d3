//! The hostile suite: one attack a file. Each must end as its header says, within the grace after its stop, and leave
//! nothing behind.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use refrain::script::mock::{MockSetup, MockWorld};
use refrain::script::{
    ScriptEnd, ScriptErrorKind, ScriptJob, ScriptLimits, ScriptOutcome, ScriptPool, ScriptPort, ScriptSource,
    StopHandle,
};
use tokio::task::JoinSet;

/// When scripts that never end by themselves are told to.
const DEADLINE: Duration = Duration::from_millis(200);
/// When the others are, which only happens where something is wrong.
const PATIENCE: Duration = Duration::from_secs(20);
/// How many attacks run at once.
const WIDTH: usize = 3;

fn attacks() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lua/hostile");
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn expectation(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let first = text.lines().next().unwrap();
    first.strip_prefix("-- expect: ").unwrap_or_else(|| panic!("{} has no expectation", path.display())).to_owned()
}

/// Says what is wrong with an outcome, if anything is.
fn problem(expected: &str, outcome: &ScriptOutcome) -> Option<String> {
    let fits = match (expected, &outcome.end) {
        ("stopped", ScriptEnd::Stopped { .. }) | ("returns", ScriptEnd::Returned { .. }) => true,
        ("memory", ScriptEnd::Failed(error)) => error.kind == ScriptErrorKind::Memory,
        ("error", ScriptEnd::Failed(error)) => !error.message.is_empty(),
        (expected, ScriptEnd::Failed(error)) => {
            expected.strip_prefix("error ").is_some_and(|part| error.message.contains(part))
        }
        _ => false,
    };
    if outcome.abandoned {
        return Some("its thread had to be left behind".to_owned());
    }
    (!fits).then(|| format!("expected {expected}, got {:.600}", format!("{:?}", outcome.end)))
}

fn job(source: ScriptSource, port: Arc<dyn ScriptPort>, world: &MockWorld, stop: &StopHandle) -> ScriptJob {
    ScriptJob { source, inputs: world.inputs("Fix it."), port, limits: ScriptLimits::default(), stop: stop.clone() }
}

async fn attack(pool: ScriptPool, path: PathBuf) -> Option<String> {
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let source = ScriptSource::from_dir(path.parent().unwrap(), &name).unwrap();
    let world = MockWorld::new(MockSetup::default());
    let port: Arc<dyn ScriptPort> = Arc::new(world.clone());
    let stop = StopHandle::new();
    let expected = expectation(&path);
    let deadline = if expected == "stopped" { DEADLINE } else { PATIENCE };
    let running = pool.run(job(source, Arc::clone(&port), &world, &stop));
    tokio::pin!(running);
    let outcome = tokio::select! {
        outcome = &mut running => outcome,
        () = tokio::time::sleep(deadline) => {
            stop.stop("deadline");
            running.await
        }
    };
    let wrong = problem(&expected, &outcome);
    // Everything of the VM held the port through its host functions.
    let leaked = Arc::strong_count(&port) - 1;
    let leak = (leaked > 0 && !outcome.abandoned).then(|| format!("{leaked} references to the port are left"));
    wrong.or(leak).map(|what| format!("{name}: {what}"))
}

#[test]
fn every_attack_ends_as_it_should() {
    let attacks = attacks();
    assert!(attacks.len() >= 45, "{}", attacks.len());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let wrong = runtime.block_on(async {
        let pool = ScriptPool::new(WIDTH);
        let mut wrong = Vec::new();
        for group in attacks.chunks(WIDTH) {
            let mut running = JoinSet::new();
            for path in group {
                running.spawn(attack(pool.clone(), path.clone()));
            }
            wrong.extend(running.join_all().await.into_iter().flatten());
        }
        wrong
    });
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn scripts_that_hog_the_cpu_leave_others_running() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let pool = ScriptPool::default();
        let stop = StopHandle::new();
        let mut hogs = JoinSet::new();
        for _ in 0..4 {
            let world = MockWorld::new(MockSetup::default());
            let source = ScriptSource::from_text("hog.lua", "while true do end");
            let (pool, job) = (pool.clone(), job(source, Arc::new(world.clone()), &world, &stop));
            hogs.spawn(async move { pool.run(job).await });
        }
        let mut normal = JoinSet::new();
        for _ in 0..20 {
            let world = MockWorld::new(MockSetup::default());
            let source =
                ScriptSource::from_text("good.lua", "for i = 1, 20 do session('x') end return { done = true }");
            let (pool, job) = (pool.clone(), job(source, Arc::new(world.clone()), &world, &StopHandle::new()));
            normal.spawn(async move { pool.run(job).await });
        }
        for outcome in normal.join_all().await {
            assert!(matches!(outcome.end, ScriptEnd::Returned { .. }), "{outcome:?}");
        }
        // The hogs were running all the while: nothing but this ends them.
        stop.stop("enough");
        for outcome in hogs.join_all().await {
            let ScriptEnd::Stopped { reason, place } = &outcome.end else { panic!("{outcome:?}") };
            assert_eq!((reason.as_str(), outcome.abandoned), ("enough", false));
            assert_eq!(place.as_ref().map(|place| place.file.as_str()), Some("hog.lua"));
        }
    });
}

#[test]
fn computing_without_a_host_call_is_a_limit() {
    let world = MockWorld::new(MockSetup::default());
    let limits = ScriptLimits::default().with_cpu(Duration::from_millis(50), Duration::from_secs(10));
    let source = ScriptSource::from_text("runner.lua", "local x = 0\nwhile true do x += 1 end");
    let outcome = world.play(&source, world.inputs("x"), limits);
    let ScriptEnd::Failed(error) = &outcome.end else { panic!("{outcome:?}") };
    assert_eq!(error.kind, ScriptErrorKind::Limit);
    assert!(error.to_string().starts_with("runner.lua:2: the script computed for more than 0.1 s"), "{error}");
    let limits = ScriptLimits::default().with_cpu(Duration::from_secs(10), Duration::from_millis(50));
    let source = ScriptSource::from_text("runner.lua", "while true do pcall(deadline.remaining) end");
    let outcome = world.play(&source, world.inputs("x"), limits);
    assert!(matches!(&outcome.end, ScriptEnd::Failed(error) if error.message.contains("in all")), "{outcome:?}");
}

#[test]
fn a_file_that_is_no_script_does_not_load() {
    let world = MockWorld::new(MockSetup::default());
    let play = |bytes: Vec<u8>| {
        let files = [("runner.lua".to_owned(), bytes.into())].into();
        let source = ScriptSource::from_embedded(files, "runner.lua");
        match world.play(&source, world.inputs("x"), ScriptLimits::default()).end {
            ScriptEnd::Failed(error) => (error.kind, error.message),
            other => panic!("{other:?}"),
        }
    };
    for (bytes, expected) in [
        (vec![0x1b, b'L', b'u', b'a', 0xff], "no UTF-8"),
        // Valid UTF-8 that starts as Luau's bytecode does: it must be read as text.
        (vec![6, 3, 0, 0, 0], ""),
        (vec![b' '; 300 << 10], "the limit is 262144"),
    ] {
        let (kind, message) = play(bytes);
        assert_eq!(kind, ScriptErrorKind::Load, "{message}");
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn dropping_the_future_ends_the_script() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let pool = ScriptPool::new(1);
        let world = MockWorld::new(MockSetup::default());
        let stop = StopHandle::new();
        let source = ScriptSource::from_text("hog.lua", "while true do end");
        let running = pool.run(job(source, Arc::new(world.clone()), &world, &stop));
        assert!(tokio::time::timeout(Duration::from_millis(50), running).await.is_err());
        assert!(stop.is_stopped());
        // The only place in the pool is free again.
        let source = ScriptSource::from_text("good.lua", "return 1");
        let outcome = pool.run(job(source, Arc::new(world.clone()), &world, &StopHandle::new())).await;
        assert!(matches!(outcome.end, ScriptEnd::Returned { .. }), "{outcome:?}");
    });
}
