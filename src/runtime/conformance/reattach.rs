//! The rules of environments whose host is killed.
//!
//! They take two processes: one that calls [`leave`] and is killed (SIGKILL) once that says so, and another one that
//! calls [`check_left`] with the same folder.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Suite, attempt};
use crate::domain::ContainerOptions;
use crate::runtime::{Command, Environment, EnvironmentSpec, ExecEnd, Output, Runtime, RuntimeError};

/// How long the command takes that ends by itself while no host lives.
const WORK: Duration = Duration::from_secs(2);

/// Opens an environment, begins work in it, and calls `ready` when its host may be killed. Returns only if something
/// fails, or if the commands end that should not.
///
/// # Errors
///
/// What the runtime says.
pub async fn leave(runtime: &dyn Runtime, scratch: &Path, ready: impl FnOnce()) -> Result<(), RuntimeError> {
    let env = runtime.open(spec(scratch)).await?;
    let stop = CancellationToken::new();
    let make = Command::shell(r#"echo work > kept; echo home > "$HOME/kept"; echo gone > "$TMPDIR/file""#);
    env.exec(&make, Output::capture(), &stop).await?;
    let works = Command::shell(format!("echo begun; sleep {}; echo ended; echo done > after; exit 3", WORK.as_secs()));
    let beats = Command::shell("while :; do echo x; echo x >> beats; sleep 0.05; done");
    let commands = async {
        tokio::try_join!(
            env.exec(&works, spool(scratch, "works"), &stop),
            env.exec(&beats, spool(scratch, "beats"), &stop)
        )
    };
    tokio::pin!(commands);
    let begun = async {
        while [log(scratch, "works"), log(scratch, "beats")].iter().any(|log| is_empty(log)) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        ended = &mut commands => return ended.map(|_| ()),
        () = begun => ready(),
    }
    commands.await.map(|_| ())
}

/// Checks what a runtime makes of an environment whose host was killed. Returns one line for each rule that is broken.
pub async fn check_left(runtime: &dyn Runtime, scratch: &Path) -> Vec<String> {
    let mut suite = Suite { scratch: scratch.to_owned(), broken: Vec::new(), rule: "the work of a dead host goes on" };
    // Generously: nothing tells from outside that it has ended.
    tokio::time::sleep(WORK * 3).await;
    let spec = spec(scratch);
    suite.rule = "what is kept is not swept";
    suite.take(runtime.sweep_except(scratch, std::slice::from_ref(&spec))).await;

    suite.rule = "of two hosts that take up an environment one gets it";
    let (first, second) = tokio::join!(runtime.reattach(&spec), runtime.reattach(&spec));
    let taken: Vec<_> = [first, second].into_iter().filter_map(|taken| suite.known(taken)).collect();
    suite.expect(suite.rule, taken.len(), 1);
    let Some(env) = taken.into_iter().next() else { return suite.broken };
    suite.what_is_left(&*env).await;

    let rule = "who has taken up an environment has it";
    suite.rule = rule;
    let again = suite.take(runtime.reattach(&spec)).await.is_some_and(|again| again.is_none());
    suite.expect(rule, again, true);
    let lines = suite.take(runtime.sweep(scratch)).await.unwrap_or_default();
    suite.expect(rule, lines, Vec::new());
    let lines = suite.take(runtime.sweep_except(scratch, std::slice::from_ref(&spec))).await.unwrap_or_default();
    suite.expect(rule, lines, Vec::new());
    let alive = suite.says(&*env, rule, "echo alive").await;
    suite.expect(rule, alive, "alive\n".to_owned());

    suite.rule = "what was taken up is closed like any other, and then there is nothing";
    suite.take(env.close()).await;
    let gone = suite.take(runtime.reattach(&spec)).await.is_some_and(|again| again.is_none());
    suite.expect(suite.rule, gone, true);
    suite.broken
}

impl Suite {
    fn known<T>(&mut self, found: Result<Option<T>, RuntimeError>) -> Option<T> {
        match found {
            Ok(found) => found,
            Err(error) => {
                self.note(format!("{error}"));
                None
            }
        }
    }

    async fn what_is_left(&mut self, env: &dyn Environment) {
        let rule = "files are as they were left, and temporary ones are gone";
        let found = self.says(env, rule, r#"cat kept "$HOME/kept" after; ls -A "$TMPDIR""#).await;
        self.expect(rule, found, "work\nhome\ndone\n".to_owned());
        self.still(env, "nothing of the dead host's commands runs on", "beats").await;

        let rule = "what was printed while no host lived is there";
        let read = |name| std::fs::read_to_string(log(&self.scratch, name)).unwrap_or_default();
        let (works, beats) = (read("works"), read("beats"));
        self.expect(rule, works, "begun\nended\n".to_owned());
        let counted = self.says(env, rule, "wc -l < beats").await.trim().parse::<usize>().unwrap_or(0);
        // It prints before it writes, and may be ended in between.
        self.expect(rule, (counted..=counted + 1).contains(&beats.lines().count()), true);

        let rule = "an end is known or unknown, and never made up";
        let end = |name| env.ended(&log(&self.scratch, name)).map(|report| report.end);
        let (works, beats) = (end("works"), end("beats"));
        self.expect(rule, works.is_none_or(|end| end == ExecEnd::Exited(3)), true);
        self.expect(rule, beats, None);
    }
}

fn spec(scratch: &Path) -> EnvironmentSpec {
    EnvironmentSpec {
        gateway: None,
        attempt: attempt(),
        purpose: "agent",
        scratch: scratch.join("left/environment"),
        env: Vec::new(),
        image: None,
        container: ContainerOptions::default(),
    }
}

fn log(scratch: &Path, name: &str) -> PathBuf {
    scratch.join(format!("left/{name}.log"))
}

fn spool(scratch: &Path, name: &str) -> Output {
    Output::Spool { stdout: log(scratch, name), stderr: log(scratch, &format!("{name}-errors")), live: None }
}

fn is_empty(path: &Path) -> bool {
    std::fs::metadata(path).map_or(true, |metadata| metadata.len() == 0)
}
