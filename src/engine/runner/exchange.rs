//! The folder in the environment through which a runner's requests for sessions and their answers go.
//!
//! `ids` holds a name for every request ever made, `new` those that nobody has seen, `taken` those that the host knows
//! of, `answers` the answers. A folder appears in `new` by a rename, and an answer counts once its file `done` is there:
//! nobody reads what is half written.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::super::session;
use super::super::world::Attempt;
use crate::domain::{Micros, SessionRecord};
use crate::runtime::{Command, ExecEnd, Output, RuntimeError};
use crate::script::port::{SessionCall, WorkspaceId};
use crate::script::{Answer, HostError};

/// What runners call.
const REFRAIN_SESSION: &str = include_str!("refrain-session");
/// The listener.
const LISTEN: &str = include_str!("listen.sh");
/// Makes the folders and the bell.
const MAKE: &str = "cd \"$1\" && mkdir -p ids new taken answers && mkfifo bell";
/// The largest prompt.
const MAX_PROMPT: u64 = 2 * 1024 * 1024;
/// The largest option.
const MAX_OPTION: u64 = 4096;
/// The longest name of a request, which is made of the number of a process.
const MAX_NAME: usize = 32;

/// Exit codes of `refrain-session`.
const FAILED: u8 = 1;
const MISUSE: u8 = 2;
const REFUSED: u8 = 3;

/// The folder.
#[derive(Debug)]
pub(super) struct Exchange {
    root: PathBuf,
    /// Where requests and answers lie on the host meanwhile.
    scratch: PathBuf,
}

impl Exchange {
    /// Makes the folder, and puts `refrain-session` beside it.
    pub(super) async fn open(attempt: &Attempt, root: &Path) -> Result<Self, RuntimeError> {
        let program = root.join("bin").join("refrain-session");
        attempt.env.put_file(REFRAIN_SESSION.as_bytes(), &program, true).await?;
        let shown = root.to_string_lossy().into_owned();
        let command = Command::new(["sh", "-c", MAKE, "refrain-runner", &shown]);
        let report = attempt.env.exec(&command, Output::capture(), &attempt.stop).await?;
        if !report.success() {
            let said = String::from_utf8_lossy(&report.stderr.bytes).trim().to_owned();
            return Err(RuntimeError::Lost(format!("the folder `{shown}` for the runner cannot be made: {said}")));
        }
        Ok(Self { root: root.to_owned(), scratch: attempt.scratch.join("runner") })
    }

    /// Waits for requests and returns their names; none when `over` ends the wait.
    pub(super) async fn listen(
        &self,
        attempt: &Attempt,
        over: &CancellationToken,
    ) -> Result<Vec<String>, RuntimeError> {
        let root = self.root.to_string_lossy().into_owned();
        let command = Command::new(["sh", "-c", LISTEN, "refrain-listener", &root]);
        let report = attempt.env.exec(&command, Output::capture(), over).await?;
        match report.end {
            ExecEnd::Exited(0) => {
                let text = String::from_utf8_lossy(&report.stdout.bytes);
                Ok(text.lines().filter(|name| is_name(name)).map(str::to_owned).collect())
            }
            ExecEnd::Stopped => Ok(Vec::new()),
            end => Err(RuntimeError::Lost(format!("the runner's requests cannot be heard any more: {end:?}"))),
        }
    }

    /// Holds the session that a request asks for. `None` where the attempt is over and nobody waits for an answer.
    pub(super) async fn hold(&self, attempt: &Arc<Attempt>, name: &str) -> Option<Reply> {
        let folder = self.scratch.join("requests").join(name);
        if attempt.stop.is_cancelled() {
            return None;
        }
        if let Err(error) = attempt.env.get(&self.root.join("taken").join(name), &folder).await {
            // Without the request there is nothing to answer, and the runner would wait for ever.
            super::unheard(attempt, &error).await;
            return None;
        }
        if attempt.stop.is_cancelled() {
            return None;
        }
        let answered = match read(&folder) {
            Ok(call) => session::ask(attempt, call).await,
            Err(message) => Err(HostError::Misuse { message }),
        };
        // The prompt is in the session's own folder by now.
        let _ = std::fs::remove_dir_all(&folder);
        match answered {
            Ok(Answer::Session(record)) => Some(Reply::of(&record)),
            Ok(_) => Some(Reply::refusal(MISUSE, "misuse", "the host gave no session".to_owned())),
            Err(HostError::Misuse { message }) => Some(Reply::refusal(MISUSE, "misuse", message)),
            Err(HostError::Refused { message, .. }) => Some(Reply::refusal(REFUSED, "refused", message)),
            Err(HostError::Stop { .. }) => None,
        }
    }

    /// Puts an answer where `refrain-session` waits for it.
    pub(super) async fn answer(&self, attempt: &Attempt, name: &str, reply: Option<Reply>) {
        let Some(reply) = reply else { return };
        let (folder, to) = (self.scratch.join("answers").join(name), self.root.join("answers").join(name));
        let sent = async {
            reply.write(&folder).map_err(|source| RuntimeError::File {
                action: "write",
                path: folder.clone(),
                source,
            })?;
            attempt.env.put(&folder, &to).await?;
            attempt.env.put_file(b"", &to.join("done"), false).await
        };
        if let Err(error) = sent.await
            && !attempt.stop.is_cancelled()
        {
            super::unheard(attempt, &error).await;
        }
        let _ = std::fs::remove_dir_all(&folder);
    }
}

/// Tells whether a name is one that `refrain-session` gives; an agent may leave any.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_NAME && name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
}

/// Reads a request.
fn read(folder: &Path) -> Result<SessionCall, String> {
    let prompt = file(folder, "prompt", MAX_PROMPT)?.ok_or("the request has no prompt")?;
    let option = |name: &str| {
        let bytes = file(folder, name, MAX_OPTION)?;
        bytes.map(|bytes| String::from_utf8(bytes).map_err(|_| format!("`--{name}` takes UTF-8 text"))).transpose()
    };
    Ok(SessionCall {
        // A session's prompt is text; bytes that are none become signs that say so.
        prompt: String::from_utf8_lossy(&prompt).into_owned(),
        role: option("role")?,
        model: option("model")?,
        harness: option("harness")?,
        phase: option("phase")?,
        label: option("label")?,
        timeout: option("timeout")?.map(|text| seconds(&text)).transpose()?,
        max_cost: option("max-cost")?.map(|text| dollars(&text)).transpose()?,
        continue_from: option("continue")?.map(|text| number(&text)).transpose()?,
        workspace: WorkspaceId::MAIN,
    })
}

/// Reads a file of a request, never through a link: the folder was an agent's to write.
fn file(folder: &Path, name: &str, limit: u64) -> Result<Option<Vec<u8>>, String> {
    let path = folder.join(name);
    let about = match std::fs::symlink_metadata(&path) {
        Ok(about) => about,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("the request cannot be read: {error}")),
    };
    if !about.is_file() || about.len() > limit {
        return Err(format!("the {name} of a request must be a file of at most {limit} bytes"));
    }
    std::fs::read(&path).map(Some).map_err(|error| format!("the request cannot be read: {error}"))
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.trim().parse::<f64>().ok().filter(|seconds| *seconds > 0.0);
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| format!("`--timeout` takes seconds above 0, not `{text}`"))
}

fn dollars(text: &str) -> Result<Micros, String> {
    let dollars = text.trim().parse::<f64>().ok().filter(|dollars| *dollars >= 0.0);
    dollars
        .and_then(|dollars| Micros::from_dollars(dollars).ok())
        .ok_or_else(|| format!("`--max-cost` takes dollars, not `{text}`"))
}

fn number(text: &str) -> Result<u32, String> {
    text.trim().parse().map_err(|_| format!("`--continue` takes the number of an earlier session, not `{text}`"))
}

/// What `refrain-session` is told.
#[derive(Debug, PartialEq)]
pub(super) struct Reply {
    status: u8,
    /// For standard output.
    text: String,
    /// For standard error.
    error: String,
    result: serde_json::Value,
}

impl Reply {
    /// The result of a session that was held, as a script would see it.
    fn of(record: &SessionRecord) -> Self {
        let (ok, reason) = (record.ok(), record.end.reason());
        let mut text = record.text.clone().unwrap_or_default();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        let error =
            if ok { String::new() } else { format!("refrain-session: {}: {reason}\n", record.status().as_str()) };
        let result = serde_json::json!({
            "ok": ok, "status": record.status().as_str(), "reason": reason, "exit_code": record.exit_code,
            "text": record.text, "usage": record.usage, "cost": record.cost.map(Micros::dollars),
            "duration": record.duration.as_secs_f64(), "turns": record.turns, "tool_calls": record.tool_calls,
            "resumable": record.harness_session.is_some(), "index": record.index, "phase": record.phase,
            "label": record.label, "model": record.model, "harness": record.harness,
        });
        Self { status: if ok { 0 } else { FAILED }, text, error, result }
    }

    fn refusal(status: u8, word: &str, reason: String) -> Self {
        let error = format!("refrain-session: {reason}\n");
        let result = serde_json::json!({"ok": false, "status": word, "reason": reason});
        Self { status, text: String::new(), error, result }
    }

    fn write(&self, folder: &Path) -> io::Result<()> {
        std::fs::create_dir_all(folder)?;
        std::fs::write(folder.join("text"), &self.text)?;
        std::fs::write(folder.join("error"), &self.error)?;
        std::fs::write(folder.join("result.json"), format!("{}\n", self.result))?;
        std::fs::write(folder.join("status"), format!("{}\n", self.status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("12", true)]
    #[test_case("12-3", true)]
    #[test_case("", false; "empty")]
    #[test_case("../../etc", false; "leads out")]
    #[test_case("1 2", false; "blank")]
    #[test_case("111111111111111111111111111111111", false; "too long")]
    fn names(name: &str, expected: bool) {
        assert_eq!(is_name(name), expected);
    }

    fn request(files: &[(&str, &[u8])]) -> Result<SessionCall, String> {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, content) in files {
            std::fs::write(folder.path().join(name), content).expect("written");
        }
        read(folder.path())
    }

    #[test]
    fn a_request_is_read() {
        let call = request(&[
            ("prompt", b"do \xff\n"),
            ("label", "erst\u{e4}".as_bytes()),
            ("timeout", b"1.5"),
            ("max-cost", b"0.25"),
            ("continue", b"2"),
        ]);
        let call = call.expect("valid");
        assert_eq!(call.prompt, "do \u{fffd}\n");
        assert_eq!(call.label.as_deref(), Some("erst\u{e4}"));
        assert_eq!(call.timeout, Some(Duration::from_millis(1500)));
        assert_eq!((call.max_cost, call.continue_from), (Micros::from_dollars(0.25).ok(), Some(2)));
        assert_eq!((call.role, call.model, call.phase), (None, None, None));
    }

    #[test_case(&[], "no prompt"; "no prompt")]
    #[test_case(&[("prompt", b"x"), ("timeout", b"-1")], "seconds above 0"; "timeout")]
    #[test_case(&[("prompt", b"x"), ("timeout", b"inf")], "seconds above 0"; "endless timeout")]
    #[test_case(&[("prompt", b"x"), ("max-cost", b"much")], "takes dollars"; "cost")]
    #[test_case(&[("prompt", b"x"), ("continue", b"-1")], "number of an earlier session"; "continue")]
    #[test_case(&[("prompt", b"x"), ("label", b"\xff")], "UTF-8"; "label")]
    fn a_request_that_makes_no_sense_is_refused(files: &[(&str, &[u8])], expected: &str) {
        let error = request(files).expect_err("refused");
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn a_request_that_is_a_link_is_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("prompt")).expect("linked");
        assert!(read(folder.path()).is_err_and(|error| error.contains("must be a file")));
    }
}
