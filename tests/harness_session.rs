//! Sessions on the local runtime: real processes, among them the scripted agent.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

mod harness_bed;
mod harness_manifests;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use refrain::domain::Micros;
use refrain::domain::failure::{LimitKind, ProviderFault, Timer};
use refrain::domain::session::SessionEnd;
use refrain::harness::declarative::DeclarativeHarness;
use refrain::harness::session::{SessionResult, read_left};
use refrain::harness::{AgentEvent, HarnessError, scripted};
use refrain::runtime::{ExecEnd, RuntimeError};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use harness_bed::{Bed, keeping};

/// This test program is its own `refrain scripted-agent`: a wrapper calls it with the arguments in a variable.
#[test]
#[allow(clippy::disallowed_methods, clippy::exit, reason = "stands for the program's `main`")]
fn agent_process() {
    let Ok(arguments) = std::env::var("REFRAIN_TEST_AGENT") else { return };
    let mut arguments = arguments.lines();
    let mut scene = (PathBuf::new(), String::new(), None, 1, PathBuf::new());
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().unwrap_or_default().to_owned();
        match argument {
            "scripted-agent" => {}
            "--play" => scene.0 = value().into(),
            "--task" => scene.1 = value(),
            "--session" => scene.3 = value().parse().unwrap(),
            "--workspace" => scene.4 = value().into(),
            // No session here has a label.
            other => scene.2 = other.strip_prefix("--phase=").map(str::to_owned),
        }
    }
    let mut prompt = String::new();
    std::io::stdin().read_to_string(&mut prompt).unwrap();
    let scene = scripted::Scene {
        play: &scene.0,
        task: &scene.1,
        phase: scene.2.as_deref(),
        label: None,
        session: scene.3,
        prompt: &prompt,
        workspace: &scene.4,
    };
    let code = scripted::act(&scene, &mut std::io::stdout(), &mut std::io::stderr());
    std::process::exit(code.into());
}

impl Bed {
    fn harness(&self, name: &str, config: Value) -> DeclarativeHarness {
        let refrain = self.dir.path().join("refrain");
        let own = std::env::current_exe().unwrap();
        let script = format!(
            "#!/bin/sh\nREFRAIN_TEST_AGENT=$(printf '%s\\n' \"$@\")\nexport REFRAIN_TEST_AGENT\nexec {} agent_process --exact --nocapture --test-threads=2\n",
            own.display()
        );
        fs::write(&refrain, script).unwrap();
        fs::set_permissions(&refrain, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        DeclarativeHarness::new(&harness_manifests::entry(name, config), &refrain).unwrap()
    }

    /// Runs a shell line as the agent.
    async fn command(&self, line: &str) -> SessionResult {
        self.run_with(&self.harness("command", json!({"command": line})), None).await.unwrap()
    }

    /// Runs a shell line whose output is read as that of the scripted agent.
    async fn printing(&self, line: &str) -> SessionResult {
        let entry = harness_manifests::entry("scripted", json!({"play": "none"}));
        let mut manifest = (*entry.manifest).clone();
        manifest.argv = vec!["sh".to_owned(), "-c".to_owned(), line.replace('{', "{{").replace('}', "}}")];
        manifest.resume_args = None;
        let entry = refrain::config::plan::HarnessEntry { manifest: Arc::new(manifest), ..entry };
        self.run_with(&DeclarativeHarness::new(&entry, Path::new("refrain")).unwrap(), None).await.unwrap()
    }

    /// Plays steps with the scripted agent.
    async fn play(&self, steps: &str, live: Option<mpsc::Sender<AgentEvent>>) -> SessionResult {
        let play = self.dir.path().join("play.yaml");
        fs::write(&play, format!("plays:\n  - task: t\n    sessions:\n      - steps: {steps}\n")).unwrap();
        self.run_with(&self.harness("scripted", json!({"play": play})), live).await.unwrap()
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test]
async fn the_scripted_agent_does_a_whole_session() {
    let bed = Bed::new().await;
    let (live, mut events) = mpsc::channel(100);
    let steps = "[{message: hi}, {write: {path: made, content: x}}, {usage: {input: 7, output: 3}}, {message: bye}]";
    let result = bed.play(steps, Some(live)).await;
    assert_eq!(result.end, SessionEnd::Completed);
    let reading = &result.reading;
    assert_eq!((reading.text.as_deref(), reading.turns, reading.tool_calls), (Some("bye"), Some(2), Some(1)));
    assert_eq!((reading.usage.input, reading.usage.output, reading.usage.cache_read), (Some(7), Some(3), None));
    assert_eq!(reading.harness_session.as_deref(), Some("scripted-t-1"));
    assert_eq!(reading.warnings, Vec::<String>::new());
    assert_eq!(fs::read(bed.env.workspace().join("made")).unwrap(), b"x");
    let log = fs::read_to_string(bed.options.stdout_log()).unwrap();
    assert!(log.contains(r#""prompt_bytes":19"#), "{log}");
    let mut seen = Vec::new();
    while let Ok(event) = events.try_recv() {
        seen.push(event);
    }
    assert!(seen.contains(&AgentEvent::Message("hi".to_owned())), "{seen:?}");
    assert_eq!(seen.last(), Some(&AgentEvent::Finished));
    bed.close().await;
}

#[tokio::test]
async fn each_record_has_its_end() {
    let bed = Bed::new().await;
    for (steps, expected) in [
        ("[{fail: broke}]", SessionEnd::AgentFailed { message: "broke".into() }),
        ("[{refuse: no}]", SessionEnd::Refused { message: "no".into() }),
        ("[{limit: cost}]", SessionEnd::Limit { limit: LimitKind::Cost, message: "a limit was reached".into() }),
        (
            "[{provider: overloaded}]",
            SessionEnd::Provider { fault: ProviderFault::Overloaded, message: "the provider refused".into() },
        ),
        ("[{message: m}, {exit: 3}]", SessionEnd::AgentFailed { message: "exit code 3".into() }),
    ] {
        assert_eq!(bed.play(steps, None).await.end, expected, "{steps}");
    }
    let result = bed.play("[{delete: absent}]", None).await;
    let SessionEnd::AgentFailed { message } = result.end else { panic!("{:?}", result.end) };
    assert!(message.contains("step 1 (delete): cannot delete `absent`"), "{message}");
    bed.close().await;
}

#[tokio::test]
async fn a_prompt_reaches_a_command_in_every_way_it_may_ask_for() {
    let bed = Bed::new().await;
    let line = r#"printf '%s' "$REFRAIN_PROMPT"; cat; cat "$REFRAIN_PROMPT_FILE"; printf '%s ' "$REFRAIN_TASK" "$REFRAIN_PHASE-""#;
    let prompt = &bed.request.prompt;
    let result = bed.command(line).await;
    assert_eq!(result.reading.text.unwrap(), format!("{prompt}{prompt}{prompt}t -"));
    let harness = bed.harness("command", json!({"argv": ["printf", "%s", "{prompt}"]}));
    let result = bed.run_with(&harness, None).await.unwrap();
    assert_eq!(result.reading.text.as_deref(), Some(prompt.trim()));
    bed.close().await;
}

#[tokio::test]
async fn a_prompt_too_long_for_an_argument_still_reaches_a_command() {
    let mut bed = Bed::new().await;
    bed.request.prompt = "x".repeat(3_000_000);
    let result = bed.command(r#"echo "${REFRAIN_PROMPT-unset}"; wc -c < "$REFRAIN_PROMPT_FILE"; wc -c"#).await;
    assert_eq!(result.reading.text.as_deref(), Some("unset\n3000000\n3000000"));
    let harness = bed.harness("command", json!({"argv": ["echo", "{prompt}"]}));
    let error = bed.run_with(&harness, None).await.expect_err("too long");
    assert!(matches!(error, HarnessError::Runtime(RuntimeError::NotRunnable { .. })), "{error}");
    assert!(error.to_string().contains("128 KiB"), "{error}");
    bed.close().await;
}

#[tokio::test]
async fn a_command_that_is_not_set_says_what_to_set() {
    let bed = Bed::new().await;
    let result = bed.run_with(&bed.harness("command", Value::Null), None).await.unwrap();
    let SessionEnd::NotStarted { message } = result.end else { panic!("{:?}", result.end) };
    assert!(message.contains("exit code 2") && message.contains("set `config.command`"), "{message}");
    bed.close().await;
}

#[tokio::test]
async fn an_error_on_stderr_with_exit_0_is_no_start() {
    let bed = Bed::new().await;
    for line in ["echo 'Error: Model not found' >&2", "echo 'NotFoundError: session' >&2; exit 1"] {
        let result = bed.command(line).await;
        let SessionEnd::NotStarted { message } = result.end else { panic!("{:?}", result.end) };
        assert!(message.contains("last on standard error: "), "{message}");
        assert!(result.reading.usage.is_unknown());
    }
    bed.close().await;
}

#[tokio::test]
async fn a_harness_that_waits_for_the_end_of_its_input_ends() {
    let bed = Bed::new().await;
    let result = bed.command("cat > /dev/null; echo done").await;
    assert_eq!((result.end, result.reading.text.as_deref()), (SessionEnd::Completed, Some("done")));
    bed.close().await;
}

#[tokio::test]
async fn a_timeout_keeps_what_was_printed_and_names_its_timer() {
    let mut bed = Bed::new().await;
    bed.options.limits.timeout = Some((Timer::Session, seconds(1)));
    let result = bed.play("[{usage: {input: 5, output: 1}}, {message: started}, {hang: true}]", None).await;
    let SessionEnd::TimedOut { timer, limit, elapsed } = result.end else { panic!("{:?}", result.end) };
    assert_eq!((timer, limit), (Timer::Session, seconds(1)));
    assert!(elapsed >= limit);
    assert_eq!((result.reading.text.as_deref(), result.reading.usage.input), (Some("started"), Some(5)));
    bed.close().await;
}

#[tokio::test]
async fn a_process_that_stays_after_its_result_is_ended_and_the_result_counts() {
    let mut bed = Bed::new().await;
    bed.options.result_grace = Duration::from_millis(300);
    let record = r#"{"type":"result","status":"completed","text":"done","turns":3}"#;
    let result = bed.printing(&format!("echo '{record}'; trap '' TERM; sleep 999")).await;
    assert_eq!((result.end, result.reading.text.as_deref()), (SessionEnd::Completed, Some("done")));
    assert!(result.reading.warnings.iter().any(|warning| warning.starts_with("killed after its result")));
    assert_eq!(result.exec.end, ExecEnd::Stopped);
    // A failure stays a failure.
    let record = r#"{"type":"result","status":"failed","text":"broke"}"#;
    let result = bed.printing(&format!("echo '{record}'; sleep 999")).await;
    assert_eq!(result.end, SessionEnd::AgentFailed { message: "broke".to_owned() });
    bed.close().await;
}

#[tokio::test]
async fn a_record_that_comes_with_the_kill_does_not_hide_the_timeout() {
    let mut bed = Bed::new().await;
    bed.options.limits.timeout = Some((Timer::Session, seconds(1)));
    let record = r#"{"type":"result","status":"failed","text":"aborted"}"#;
    let line = format!(
        "echo '{{\"type\":\"message\",\"text\":\"m\"}}'; trap 'echo {record:?}; exit 0' TERM; while :; do sleep 0.05; done"
    );
    let result = bed.printing(&line).await;
    assert!(matches!(result.end, SessionEnd::TimedOut { timer: Timer::Session, .. }), "{:?}", result.end);
    bed.close().await;
}

#[tokio::test]
async fn a_session_over_its_cost_is_stopped_while_it_runs() {
    let mut bed = Bed::new().await;
    bed.options.max_cost = Some(Micros::new(500_000));
    let result = bed.play("[{cost: 0.3}, {message: a}, {cost: 0.4}, {hang: true}]", None).await;
    let message = "cost limit of $0.5000 reached: $0.7000 spent".to_owned();
    assert_eq!(result.end, SessionEnd::Limit { limit: LimitKind::Cost, message });
    assert_eq!(result.reading.cost, Some(Micros::new(700_000)));
    // A price goes before what the harness reports.
    bed.options.price = Some(Arc::new(|usage, _| usage.input.map(|tokens| Micros::new(tokens.cast_signed()))));
    let result = bed.play("[{cost: 9}, {usage: {input: 600000}}, {hang: true}]", None).await;
    assert!(result.end.reason().contains("$0.6000 spent"), "{:?}", result.end);
    bed.close().await;
}

#[tokio::test]
async fn a_cost_that_shows_only_in_the_result_is_a_warning() {
    let mut bed = Bed::new().await;
    bed.options.max_cost = Some(Micros::new(500_000));
    let result = bed.printing(
        "printf '%s\\n%s\\n' '{\"type\":\"cost\",\"usd\":0.7}' '{\"type\":\"result\",\"status\":\"completed\",\"text\":\"t\"}'",
    )
    .await;
    assert_eq!(result.end, SessionEnd::Completed);
    assert!(result.reading.warnings.iter().any(|warning| warning.contains("more than the limit")));
    bed.close().await;
}

#[tokio::test]
async fn silence_from_the_start_is_no_start() {
    let mut bed = Bed::new().await;
    bed.options.first_output = Some(Duration::from_millis(300));
    bed.options.limits.timeout = Some((Timer::Session, seconds(60)));
    let result = bed.command("exec sleep 1000").await;
    assert_eq!(result.end, SessionEnd::NotStarted { message: "it printed nothing within 0.3 s".to_owned() });
    let result = bed.command("echo early; sleep 0.6; echo late").await;
    assert_eq!(result.end, SessionEnd::Completed);
    bed.close().await;
}

#[tokio::test]
async fn a_cancelled_session_is_cancelled() {
    let bed = Bed::new().await;
    let stop = bed.stop.clone();
    let (result, ()) = tokio::join!(bed.play("[{message: a}, {hang: true}]", None), async {
        tokio::time::sleep(Duration::from_millis(400)).await;
        stop.cancel();
    });
    assert_eq!(result.end, SessionEnd::Cancelled);
    bed.close().await;
}

#[tokio::test]
async fn helpers_that_outlive_the_harness_are_ended_and_told() {
    let bed = Bed::new().await;
    let result = bed.command("(setsid sleep 300 > /dev/null 2>&1 &) ; echo done").await;
    assert_eq!(result.end, SessionEnd::Completed);
    assert!(result.reading.warnings.iter().any(|warning| warning.starts_with("1 processes outlived")));
    bed.close().await;
}

#[tokio::test]
async fn long_lines_odd_bytes_and_a_last_line_without_newline_are_read() {
    let bed = Bed::new().await;
    let line = r#"printf '{"type":"message","text":"'; head -c 5000000 /dev/zero | tr '\0' x; printf '"}\n';
        head -c 9000000 /dev/zero | tr '\0' y; echo; printf 'bad \377 byte\n';
        printf '{"type":"result","status":"completed","text":"end"}'"#;
    let result = bed.printing(line).await;
    assert_eq!((result.end, result.reading.text.as_deref()), (SessionEnd::Completed, Some("end")));
    assert_eq!(result.reading.warnings, ["1 lines were too long to be read"]);
    bed.close().await;
}

#[tokio::test]
async fn output_without_end_is_a_limit() {
    let mut bed = Bed::new().await;
    bed.options.limits.output_bytes = Some(1_000_000);
    let result = bed.command("yes").await;
    assert!(matches!(result.end, SessionEnd::Limit { limit: LimitKind::Output, .. }), "{:?}", result.end);
    bed.close().await;
}

#[tokio::test]
async fn counters_of_a_resumed_session_that_include_the_earlier_one_are_unknown() {
    let mut bed = Bed::new().await;
    let line = r#"echo '{"type":"thread.started","thread_id":"x"}'; echo '{"type":"turn.completed","usage":{"input_tokens":10,"cached_input_tokens":4,"output_tokens":2}}'"#;
    let entry = harness_manifests::entry("codex", Value::Null);
    let mut manifest = (*entry.manifest).clone();
    let line = line.replace('{', "{{").replace('}', "}}");
    manifest.argv = vec!["sh".to_owned(), "-c".to_owned(), line, "{resume_args}".to_owned()];
    let entry = refrain::config::plan::HarnessEntry { manifest: Arc::new(manifest), ..entry };
    let harness = DeclarativeHarness::new(&entry, Path::new("refrain")).unwrap();
    let fresh = bed.run_with(&harness, None).await.unwrap();
    assert_eq!((fresh.end, fresh.reading.usage.input), (SessionEnd::Completed, Some(6)));
    bed.request.resume = Some("x".to_owned());
    let resumed = bed.run_with(&harness, None).await.unwrap();
    assert!(resumed.reading.usage.is_unknown());
    assert!(resumed.reading.warnings.iter().any(|warning| warning.contains("tokens of this one are unknown")));
    bed.close().await;
}

#[tokio::test]
async fn what_a_killed_harness_has_kept_of_its_session_is_read() {
    let mut bed = Bed::new().await;
    bed.options.limits.timeout = Some((Timer::Session, Duration::from_secs(2)));
    let line = r#"mkdir -p ~/.keeping/a ~/.keeping/b; echo '{"type":"start","id":"s-1"}'
        echo '{"type":"answer","in":999,"out":999}' > ~/.keeping/b/s-2.jsonl
        printf '{"type":"answer","in":9,"out":9}\n{"type":"resumed"}\n{"type":"answer","in":5,"out":7}\n' > ~/.keeping/a/s-1.jsonl
        echo '{"type":"answer","in":1,"out":1}' >> ~/.keeping/a/s-1.jsonl
        sleep 60"#;
    let result = bed.run_with(&keeping(line), None).await.unwrap();
    assert!(matches!(result.end, SessionEnd::TimedOut { .. }), "{:?}", result.end);
    assert_eq!((result.reading.usage.input, result.reading.usage.output), (Some(6), Some(8)));
    let kept = fs::read_to_string(bed.options.folder.join("session.log")).unwrap();
    assert_eq!(kept.lines().count(), 4);
    assert!(!bed.options.folder.join("session-files").exists());
    bed.close().await;
}

#[tokio::test]
async fn what_a_session_has_left_whose_host_died_is_read_with_the_file_that_its_harness_kept() {
    let bed = Bed::new().await;
    let kept = bed.env.home().join(".keeping/a");
    fs::create_dir_all(&kept).unwrap();
    fs::write(kept.join("s-1.jsonl"), "{\"type\":\"answer\",\"in\":5,\"out\":7}\n").unwrap();
    fs::create_dir_all(&bed.options.folder).unwrap();
    fs::write(bed.options.stderr_log(), "").unwrap();
    let harness = keeping("true");
    let began = (false, jiff::Timestamp::UNIX_EPOCH);
    let left = || read_left(&*bed.env, (&harness, &bed.request), &bed.options, began);

    fs::write(bed.options.stdout_log(), "{\"type\":\"start\",\"id\":\"s-1\"}\n").unwrap();
    assert!(left().await.unwrap().is_none(), "nothing shows that it had finished");

    let printed = "{\"type\":\"start\",\"id\":\"s-1\"}\n{\"type\":\"say\",\"text\":\"hi\"}\n{\"type\":\"end\"}\n";
    fs::write(bed.options.stdout_log(), printed).unwrap();
    let result = left().await.unwrap().unwrap();
    assert_eq!(result.end, SessionEnd::Completed);
    assert_eq!((result.reading.usage.input, result.reading.usage.output), (Some(5), Some(7)));
    assert!(result.from_log.decides_end && !result.from_log.outlived_end);
    assert!(bed.options.folder.join("session.log").exists(), "it is kept with the logs");
    bed.close().await;
}

#[tokio::test]
async fn a_harness_that_kept_no_file_leaves_its_tokens_unknown() {
    let bed = Bed::new().await;
    let line = r#"ln -s /etc/passwd ~/.keeping; echo '{"type":"say","text":"hi"}'; echo '{"type":"end"}'"#;
    let result = bed.run_with(&keeping(line), None).await.unwrap();
    assert_eq!(result.end, SessionEnd::Completed);
    assert!(result.reading.usage.is_unknown());
    assert!(!bed.options.folder.join("session.log").exists());
    bed.close().await;
}
