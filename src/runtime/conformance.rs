//! What every runtime must do, as one suite: ours, and an embedder's.
//!
//! [`check`] opens real environments and runs real `sh` commands in them. It needs a POSIX shell in the environment,
//! and some ten seconds, because several rules are about time.

mod reattach;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Command, Environment, EnvironmentSpec, ExecEnd, ExecReport, Limits, Output, Runtime, RuntimeError, Stdin};
use crate::domain::cell::CellId;
use crate::domain::failure::Timer;
use crate::domain::{AttemptId, ContainerOptions, RunName};

pub use reattach::{check_left, leave};

/// Checks a runtime. `scratch` is an empty folder on the host. Returns one line for each rule that is broken.
pub async fn check(runtime: &dyn Runtime, scratch: &Path) -> Vec<String> {
    let mut suite = Suite { scratch: scratch.to_owned(), broken: Vec::new(), rule: "preflight" };
    if let Err(error) = runtime.preflight().await {
        suite.note(format!("{error}"));
        return suite.broken;
    }
    suite.rule = "open";
    let spec = EnvironmentSpec {
        attempt: attempt(),
        purpose: "agent",
        scratch: scratch.join("environment"),
        env: vec![("REFRAIN_CHECK".to_owned(), "from the spec".to_owned())],
        image: None,
        container: ContainerOptions::default(),
        gateway: None,
    };
    let environment = match runtime.open(spec).await {
        Ok(environment) => environment,
        Err(error) => {
            suite.note(format!("{error}"));
            return suite.broken;
        }
    };
    let env = &*environment;
    suite.surroundings(env).await;
    suite.ends(env).await;
    suite.refusals(env).await;
    suite.output(env).await;
    suite.limits(env).await;
    suite.trees(env).await;
    suite.files(env).await;
    suite.closing(runtime, env).await;
    suite.broken
}

struct Suite {
    scratch: PathBuf,
    broken: Vec<String>,
    rule: &'static str,
}

impl Suite {
    fn note(&mut self, what: impl std::fmt::Display) {
        self.broken.push(format!("{}: {what}", self.rule));
    }

    fn expect<T: PartialEq + std::fmt::Debug>(&mut self, rule: &'static str, found: T, wanted: T) {
        self.rule = rule;
        if found != wanted {
            self.note(format!("expected {wanted:?}, found {found:?}"));
        }
    }

    async fn run(&mut self, env: &dyn Environment, command: Command) -> Option<ExecReport> {
        self.take(env.exec(&command, Output::capture(), &CancellationToken::new())).await
    }

    async fn sh(&mut self, env: &dyn Environment, script: &str) -> Option<ExecReport> {
        self.run(env, Command::shell(script)).await
    }

    async fn take<T>(&mut self, work: impl Future<Output = Result<T, RuntimeError>>) -> Option<T> {
        // No rule takes longer; a runtime that hangs is broken too.
        match tokio::time::timeout(Duration::from_secs(60), work).await {
            Ok(Ok(value)) => Some(value),
            Ok(Err(error)) => {
                self.note(format!("{error}"));
                None
            }
            Err(_) => {
                self.note("no answer within 60 s");
                None
            }
        }
    }

    /// Runs a script and returns what it printed.
    async fn says(&mut self, env: &dyn Environment, rule: &'static str, script: &str) -> String {
        self.rule = rule;
        self.sh(env, script).await.map(|report| text(&report.stdout.bytes)).unwrap_or_default()
    }

    async fn surroundings(&mut self, env: &dyn Environment) {
        let workspace = env.workspace().to_string_lossy().into_owned();
        self.expect("the workspace is an absolute path", env.workspace().is_absolute(), true);
        let listing = self.says(env, "the workspace is empty and commands begin there", "pwd -P; ls -A").await;
        self.expect("the workspace is empty and commands begin there", listing, format!("{workspace}\n"));
        let home = self.says(env, "HOME is the private home", r#"cd "$HOME" && pwd -P"#).await;
        self.expect("HOME is the private home", home, format!("{}\n", env.home().display()));
        let rule = "TMPDIR exists and LANG is C.UTF-8";
        let found = self.says(env, rule, r#"test -d "$TMPDIR" && echo "$LANG""#).await;
        self.expect(rule, found, "C.UTF-8\n".to_owned());
        let rule = "variables of the spec reach commands, variables of the command win";
        let spec = self.says(env, rule, r#"printf %s "$REFRAIN_CHECK""#).await;
        self.expect(rule, spec, "from the spec".to_owned());
        let mut command = Command::shell(r#"printf %s "$REFRAIN_CHECK""#);
        command.env = vec![("REFRAIN_CHECK".to_owned(), "from\nthe command".to_owned())];
        let found = self.run(env, command).await.map(|report| text(&report.stdout.bytes));
        self.expect(rule, found, Some("from\nthe command".to_owned()));
        let rule = "nothing else of the host's environment reaches commands";
        let cargo = self.says(env, rule, r#"printf %s "$CARGO_MANIFEST_DIR$CARGO_PKG_NAME""#).await;
        self.expect(rule, cargo, String::new());
        let rule = "a command runs in the folder it asks for";
        let mut command = Command::shell("pwd -P");
        command.cwd = Some(env.home().to_owned());
        let found = self.run(env, command).await.map(|report| text(&report.stdout.bytes));
        self.expect(rule, found, Some(format!("{}\n", env.home().display())));
    }

    async fn ends(&mut self, env: &dyn Environment) {
        for (script, end) in [
            ("exit 0", ExecEnd::Exited(0)),
            ("exit 3", ExecEnd::Exited(3)),
            ("exit 137", ExecEnd::Exited(137)),
            ("kill -9 $$", ExecEnd::Signaled(9)),
            ("kill -TERM $$", ExecEnd::Signaled(15)),
        ] {
            self.rule = "an end is reported as it was";
            let report = self.sh(env, script).await;
            let code = if let ExecEnd::Exited(code) = end { Some(code) } else { None };
            self.expect(
                "an end is reported as it was",
                report.map(|report| (report.end, report.exit_code)),
                Some((end, code)),
            );
        }
        let rule = "arguments arrive as they are";
        let odd = "a b\t'\"$(x)`\n*\u{1F980}";
        let report = self.run(env, Command::new(["printf", "%s|", odd, "", "-n"])).await;
        self.expect(rule, report.map(|report| text(&report.stdout.bytes)), Some(format!("{odd}||-n|")));
    }

    async fn refusals(&mut self, env: &dyn Environment) {
        let mut elsewhere = Command::new(["true"]);
        elsewhere.cwd = Some(env.workspace().join("absent"));
        let mut long = Command::new(["true"]);
        long.argv.push("x".repeat(8 << 20));
        for (rule, command) in [
            ("an absent program cannot be run", Command::new(["refrain-no-such-program"])),
            ("a file that is not executable cannot be run", Command::new(["/etc/passwd"])),
            ("an absent working directory is refused", elsewhere),
            ("arguments that are too long are refused", long),
            ("an empty command is refused", Command::default()),
        ] {
            self.rule = rule;
            match env.exec(&command, Output::capture(), &CancellationToken::new()).await {
                Err(RuntimeError::NotRunnable { reason, .. }) if !reason.is_empty() => {}
                other => self.note(format!("expected NotRunnable, found {other:?}")),
            }
        }
    }

    async fn output(&mut self, env: &dyn Environment) {
        let rule = "standard input is empty unless bytes are given, and ends";
        let found = self.run(env, Command::new(["cat"])).await.map(|report| report.stdout.total);
        self.expect(rule, found, Some(0));
        let mut cat = Command::new(["wc", "-c"]);
        cat.stdin = Stdin::Bytes(vec![b'x'; 300_000]);
        let found = self.run(env, cat).await.map(|report| text(&report.stdout.bytes).trim().to_owned());
        self.expect(rule, found, Some("300000".to_owned()));
        let rule = "a command that does not read its standard input is not held up";
        let mut deaf = Command::shell("sleep 0.2; echo done");
        deaf.stdin = Stdin::Bytes(vec![b'x'; 4 << 20]);
        let found = self.run(env, deaf).await.map(|report| text(&report.stdout.bytes));
        self.expect(rule, found, Some("done\n".to_owned()));

        let rule = "captured output keeps head and tail in bounded memory and counts all";
        let script = "printf head; head -c 5000000 /dev/zero; printf tail; printf both >&2";
        let output = Output::Capture { limit: 4096 };
        let report = self.take(env.exec(&Command::shell(script), output, &CancellationToken::new())).await;
        let found = report.map(|report| {
            let kept = report.stdout.bytes;
            let ends = kept.starts_with(b"head") && kept.ends_with(b"tail") && kept.len() == 4096;
            (report.stdout.total, report.stdout.cut, ends, text(&report.stderr.bytes))
        });
        self.expect(rule, found, Some((5_000_008, true, true, "both".to_owned())));

        let rule = "spooled output is whole, also of its last act and without a last newline, whoever listens slowly";
        let (live, listener) = tokio::sync::mpsc::channel(1);
        let (stdout, stderr) = (self.scratch.join("stdout.log"), self.scratch.join("stderr.log"));
        let output = Output::Spool { stdout: stdout.clone(), stderr: stderr.clone(), live: Some(live) };
        let script = "head -c 3000000 /dev/zero | tr '\\0' x; printf error >&2; printf end";
        let report = self.take(env.exec(&Command::shell(script), output, &CancellationToken::new())).await;
        drop(listener);
        let total = report.map(|report| (report.stdout.total, text(&report.stderr.bytes)));
        self.expect(rule, total, Some((3_000_003, "error".to_owned())));
        let file = std::fs::read(&stdout).unwrap_or_default();
        self.expect(rule, (file.len(), file.ends_with(b"xend")), (3_000_003, true));
        self.expect(rule, std::fs::read(&stderr).unwrap_or_default(), b"error".to_vec());
    }

    async fn limits(&mut self, env: &dyn Environment) {
        let second = Duration::from_secs(1);
        let limited = |script: &str, limits: Limits| Command { limits, ..Command::shell(script) };
        let short = Some(Duration::from_millis(200));
        let rule = "a timeout names its timer and its value, and what was printed is kept";
        let limits = Limits { timeout: Some((Timer::Session, second)), grace: short, ..Limits::default() };
        let report = self.run(env, limited("echo begun; trap '' TERM; while :; do sleep 1; done", limits)).await;
        let found = report.map(|report| (report.end, text(&report.stdout.bytes)));
        let end = ExecEnd::TimedOut { timer: Timer::Session, limit: second };
        self.expect(rule, found, Some((end, "begun\n".to_owned())));

        let rule = "a polite command may clean up and its exit code is kept";
        let limits = Limits { timeout: Some((Timer::Task, second)), ..Limits::default() };
        let report = self.run(env, limited("trap 'echo bye; exit 7' TERM; while :; do sleep 0.05; done", limits)).await;
        let found = report.map(|report| (report.exit_code, text(&report.stdout.bytes)));
        self.expect(rule, found, Some((Some(7), "bye\n".to_owned())));

        let rule = "silence without CPU use is idle, and silence with CPU use is not";
        let limits = Limits { idle: Some(second), grace: short, ..Limits::default() };
        let report = self.run(env, limited("sleep 30", limits.clone())).await;
        let end = ExecEnd::TimedOut { timer: Timer::Idle, limit: second };
        self.expect(rule, report.map(|report| report.end), Some(end));
        let busy = "i=0; end=$(($(date +%s) + 3)); while [ $(date +%s) -lt $end ]; do i=$((i+1)); done; echo done";
        let report = self.run(env, limited(busy, limits)).await;
        self.expect(rule, report.map(|report| report.end), Some(ExecEnd::Exited(0)));

        let rule = "endless output is stopped";
        let limits = Limits { output_bytes: Some(100_000), grace: short, ..Limits::default() };
        let report = self.run(env, limited("yes", limits)).await;
        self.expect(rule, report.map(|report| report.end), Some(ExecEnd::OutputLimit { limit: 100_000 }));

        let rule = "the stop token ends a command";
        let stop = CancellationToken::new();
        let command = Command::shell("sleep 30");
        let work = env.exec(&command, Output::capture(), &stop);
        let later = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            stop.cancel();
        };
        let both = async { tokio::join!(work, later).0 };
        let report = self.take(both).await;
        self.expect(rule, report.map(|report| report.end), Some(ExecEnd::Stopped));
        let report = self.take(env.exec(&Command::new(["true"]), Output::capture(), &stop)).await;
        self.expect("a stopped command is not started", report.map(|report| report.end), Some(ExecEnd::Stopped));
    }

    async fn trees(&mut self, env: &dyn Environment) {
        let beat = |name: &str| format!("(while :; do echo x >> {name}; sleep 0.05; done)");
        let rule = "a background child that holds the output does not hold the report up, and is ended";
        let report = self.sh(env, "(trap '' HUP TERM; sleep 300) & echo done").await;
        let found = report.map(|report| {
            (text(&report.stdout.bytes), report.leftovers > 0, report.duration < Duration::from_secs(20))
        });
        self.expect(rule, found, Some(("done\n".to_owned(), true, true)));

        let rule = "nothing of a command that was stopped goes on";
        let limits = Limits {
            timeout: Some((Timer::Session, Duration::from_secs(1))),
            grace: Some(Duration::from_millis(100)),
            ..Limits::default()
        };
        let script = format!("trap '' TERM; {} & {} & wait", beat("first"), beat("second"));
        self.run(env, Command { limits, ..Command::shell(script) }).await;
        self.still(env, rule, "first second").await;

        let rule = "dropping the future ends the command";
        let command = Command::shell(format!("{} & wait", beat("dropped")));
        let _ = tokio::time::timeout(
            Duration::from_millis(500),
            env.exec(&command, Output::capture(), &CancellationToken::new()),
        )
        .await;
        self.still(env, rule, "dropped").await;

        let rule = "quiesce finds nobody where nobody is left";
        self.rule = rule;
        self.take(env.quiesce()).await;
        let again = self.take(env.quiesce()).await.map(|quiet| quiet.killed);
        self.expect(rule, again, Some(0));
    }

    /// Checks that files exist and do not grow any more.
    async fn still(&mut self, env: &dyn Environment, rule: &'static str, files: &str) {
        let before = self.says(env, rule, &format!("wc -c {files}")).await;
        tokio::time::sleep(Duration::from_millis(400)).await;
        let after = self.says(env, rule, &format!("wc -c {files}")).await;
        self.expect(rule, before.is_empty(), false);
        self.expect(rule, after, before);
    }

    async fn files(&mut self, env: &dyn Environment) {
        let (host, back) = (self.scratch.join("host"), self.scratch.join("back"));
        let made = std::fs::create_dir_all(host.join("a")).and_then(|()| std::fs::write(host.join("a/data"), "x"));
        self.expect("the host's scratch folder can be written", made.is_ok(), true);
        self.rule = "trees go in and come back as they are";
        let tree = env.workspace().join("tree");
        self.take(env.put(&host, &tree)).await;
        self.take(env.put_file(b"#!/bin/sh\necho ran", &tree.join("deep/er/run"), true)).await;
        let ran = self.says(env, self.rule, "cat tree/a/data; tree/deep/er/run; ln -s /etc/passwd tree/link").await;
        self.expect("trees go in and come back as they are", ran, "xran\n".to_owned());
        self.says(env, "special files are left out with a note", "mkfifo tree/fifo").await;
        let notes = self.take(env.get(&tree, &back)).await.unwrap_or_default();
        self.expect("special files are left out with a note", notes.len(), 1);
        let rule = "trees go in and come back as they are";
        self.expect(rule, std::fs::read(back.join("a/data")).ok(), Some(b"x".to_vec()));
        self.expect(rule, std::fs::read(back.join("deep/er/run")).is_ok(), true);
        let link = std::fs::symlink_metadata(back.join("link")).is_ok_and(|metadata| metadata.is_symlink());
        self.expect("a symlink comes back as a symlink", link, true);

        let rule = "a symlink in the way is not followed";
        self.says(env, rule, "mkdir real trap; ln -s ../real trap/sub").await;
        self.take(env.put_file(b"x", &env.workspace().join("trap/sub/file"), false)).await;
        let found = self.says(env, rule, "ls real").await;
        self.expect(rule, found, String::new());
        let rule = "what is not there cannot be fetched";
        let error = env.get(&env.workspace().join("absent"), &back).await;
        self.expect(rule, matches!(error, Err(RuntimeError::File { .. })), true);
    }

    async fn closing(&mut self, runtime: &dyn Runtime, env: &dyn Environment) {
        let rule = "an environment of a living host is not swept";
        let root = self.scratch.clone();
        self.rule = rule;
        let lines = self.take(runtime.sweep(&root)).await.unwrap_or_default();
        self.expect(rule, lines, Vec::new());
        let alive = self.says(env, rule, "echo alive").await;
        self.expect(rule, alive, "alive\n".to_owned());
        self.rule = "closing removes everything, and may be done twice";
        self.says(env, self.rule, "mkdir -p locked/in && touch locked/in/file && chmod 555 locked/in locked").await;
        self.take(env.close()).await;
        self.take(env.close()).await;
        let gone = env.host_path(env.workspace()).is_none_or(|path| !path.exists());
        self.expect("closing removes everything, and may be done twice", gone, true);
        let rule = "a closed environment is lost";
        let lost = env.exec(&Command::new(["true"]), Output::capture(), &CancellationToken::new()).await;
        self.expect(rule, matches!(lost, Err(RuntimeError::Lost(_))), true);
    }
}

fn attempt() -> AttemptId {
    // A fixed valid name; were it not, the suite would have nothing to check.
    let run = RunName::new("conformance").unwrap_or_else(|error| unreachable!("a valid name: {error}"));
    AttemptId { run, cell: CellId::from_stored("harness__model__task__r1"), number: 1 }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
