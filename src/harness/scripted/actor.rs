//! The scripted agent at work: steps become files, processes and records.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::Scene;
use super::play::{PlayError, ReplaceStep, Session, Step, WriteStep};

/// Performs a session and returns the exit code.
pub(super) fn perform(scene: &Scene<'_>, session: &Session, out: &mut dyn Write) -> Result<u8, PlayError> {
    let mut actor = Actor { scene, out, text: None, turns: 0 };
    let id = format!("scripted-{}-{}", scene.task, scene.session);
    actor.print(&json!({"type": "session", "id": id, "prompt_bytes": scene.prompt.len()}))?;
    for (at, step) in session.steps.iter().enumerate() {
        let done = actor.step(step).map_err(|fault| match fault {
            Fault::Step(message) => PlayError::Step { number: at + 1, step: step.name(), message },
            Fault::Output(error) => PlayError::Output(error),
        })?;
        if let Some(code) = done {
            return Ok(code);
        }
    }
    let text = actor.text.take();
    actor.result("completed", text.map_or(Value::Null, Value::String), &json!({}))?;
    Ok(0)
}

struct Actor<'a, 'o> {
    scene: &'a Scene<'a>,
    out: &'o mut dyn Write,
    text: Option<String>,
    turns: u64,
}

enum Fault {
    Step(String),
    Output(std::io::Error),
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        Self::Output(error)
    }
}

impl Actor<'_, '_> {
    /// Does one step; a code ends the session.
    fn step(&mut self, step: &Step) -> Result<Option<u8>, Fault> {
        match step {
            Step::Message(text) => {
                self.turns += 1;
                self.text = Some(text.clone());
                self.print(&json!({"type": "message", "text": text}))?;
            }
            Step::Write(file) => self.tool("write", |actor| actor.write(file))?,
            Step::Replace(change) => self.tool("replace", |actor| actor.replace(change))?,
            Step::Delete(path) => self.tool("delete", |actor| actor.delete(path))?,
            Step::Run(line) => self.run(line)?,
            Step::Sleep(seconds) => wait(*seconds)?,
            Step::Usage(usage) => {
                let mut record = json!({"type": "usage"});
                for (class, tokens) in [
                    ("input", usage.input),
                    ("output", usage.output),
                    ("cache_read", usage.cache_read),
                    ("cache_write", usage.cache_write),
                    ("reasoning", usage.reasoning),
                ] {
                    // What the play does not tell stays unknown.
                    if let Some(tokens) = tokens {
                        record[class] = tokens.into();
                    }
                }
                self.print(&record)?;
            }
            Step::Cost(dollars) => self.print(&json!({"type": "cost", "usd": dollars}))?,
            Step::Throttled(seconds) => {
                let wait = Duration::try_from_secs_f64(*seconds).map_err(|error| Fault::Step(error.to_string()))?;
                self.print(
                    &json!({"type": "throttled", "wait_ms": u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)}),
                )?;
            }
            Step::Fail(message) => return self.end("failed", message, &json!({}), 1),
            Step::Refuse(message) => return self.end("refused", message, &json!({}), 0),
            Step::Limit(limit) => return self.end("limit", "a limit was reached", &json!({"limit": limit}), 1),
            Step::Provider(fault) => return self.end("provider", "the provider refused", &json!({"fault": fault}), 1),
            Step::Exit(code) => return Ok(Some(*code)),
            Step::Hang(true) => loop {
                std::thread::sleep(Duration::from_secs(3600));
            },
            Step::Hang(false) => {}
            Step::Noise(line) => {
                writeln!(self.out, "{line}")?;
                self.out.flush()?;
            }
        }
        Ok(None)
    }

    fn end(&mut self, status: &str, message: &str, more: &Value, code: u8) -> Result<Option<u8>, Fault> {
        self.result(status, message.into(), more)?;
        Ok(Some(code))
    }

    fn result(&mut self, status: &str, text: Value, more: &Value) -> std::io::Result<()> {
        let mut record = json!({"type": "result", "status": status, "text": text, "turns": self.turns});
        for (key, value) in more.as_object().into_iter().flatten() {
            record[key] = value.clone();
        }
        self.print(&record)
    }

    fn print(&mut self, record: &Value) -> std::io::Result<()> {
        writeln!(self.out, "{record}")?;
        self.out.flush()
    }

    /// Does something with a file. That it cannot be done is a mistake in the play, told as such.
    fn tool(&mut self, name: &str, work: impl FnOnce(&Self) -> Result<(), String>) -> Result<(), Fault> {
        let done = work(self);
        self.print(&json!({"type": "tool", "name": name, "ok": done.is_ok()}))?;
        done.map_err(Fault::Step)
    }

    fn write(&self, file: &WriteStep) -> Result<(), String> {
        let path = self.inside(&file.path)?;
        let failed = |error| format!("cannot write `{}`: {error}", file.path.display());
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        fs::write(&path, &file.content).map_err(failed)?;
        if file.executable {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(failed)?;
        }
        Ok(())
    }

    fn replace(&self, change: &ReplaceStep) -> Result<(), String> {
        let path = self.inside(&change.path)?;
        let shown = change.path.display();
        let text = fs::read_to_string(&path).map_err(|error| format!("cannot read `{shown}`: {error}"))?;
        match text.matches(&change.old).count() {
            1 => {
                let new = text.replacen(&change.old, &change.new, 1);
                fs::write(&path, new).map_err(|error| format!("cannot write `{shown}`: {error}"))
            }
            count => Err(format!("`old` stands in `{shown}` {count} times, not once: {:?}", change.old)),
        }
    }

    fn delete(&self, path: &Path) -> Result<(), String> {
        fs::remove_file(self.inside(path)?).map_err(|error| format!("cannot delete `{}`: {error}", path.display()))
    }

    fn run(&mut self, line: &str) -> Result<(), Fault> {
        let output = Command::new("sh")
            .args(["-c", line])
            .current_dir(self.scene.workspace)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| Fault::Step(format!("cannot run `sh`: {error}")))?;
        let text = [output.stdout, output.stderr].concat();
        let shown = String::from_utf8_lossy(&text[text.len().saturating_sub(4096)..]).into_owned();
        let (ok, code) = (output.status.success(), output.status.code());
        Ok(self.print(&json!({"type": "tool", "name": "run", "ok": ok, "exit_code": code, "output": shown}))?)
    }

    /// Returns a path below the workspace; a play must not name another.
    fn inside(&self, path: &Path) -> Result<PathBuf, String> {
        let plain = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if plain && path.components().next().is_some() {
            Ok(self.scene.workspace.join(path))
        } else {
            Err(format!("`{}` does not lie in the workspace", path.display()))
        }
    }
}

fn wait(seconds: f64) -> Result<(), Fault> {
    let duration = Duration::try_from_secs_f64(seconds).map_err(|error| Fault::Step(error.to_string()))?;
    std::thread::sleep(duration);
    Ok(())
}
