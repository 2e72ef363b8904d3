//! Play files: what the scripted agent does, by task, phase, label and session.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::Scene;
use crate::config;
use crate::domain::Usage;
use crate::domain::failure::{LimitKind, ProviderFault};

/// Everything that is in a play file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Play {
    plays: Vec<Part>,
}

/// What happens in the sessions of one task.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Id of the task, or `*`.
    pub task: String,
    /// Only in this phase.
    #[serde(default)]
    pub phase: Option<String>,
    /// Only in sessions with this label; `*` stands for any text in it.
    #[serde(default)]
    pub label: Option<String>,
    /// Session by session; the last one repeats.
    pub sessions: Vec<Session>,
}

/// What happens in one session.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Session {
    /// In order.
    pub steps: Vec<Step>,
}

/// One thing the agent does.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Says something.
    Message(String),
    /// Writes a file.
    Write(WriteStep),
    /// Replaces a text that stands in a file once.
    Replace(ReplaceStep),
    /// Deletes a file.
    Delete(PathBuf),
    /// Runs a shell line in the workspace. Its failure is the agent's to see and ends nothing.
    Run(String),
    /// Waits, in seconds.
    Sleep(f64),
    /// Reports tokens of one model call.
    Usage(Usage),
    /// Reports dollars of one model call.
    Cost(f64),
    /// Is told by the provider to come back in so many seconds; what follows is up to the next steps.
    Throttled(f64),
    /// Ends with a failure.
    Fail(String),
    /// Ends by declining.
    Refuse(String),
    /// Ends at a limit of the harness's own.
    Limit(LimitKind),
    /// Ends because the provider refuses.
    Provider(ProviderFault),
    /// Ends at once with this exit code, without a result.
    Exit(u8),
    /// Goes silent and never ends.
    Hang(bool),
    /// Prints a line that is no record.
    Noise(String),
}

/// A file to write.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteStep {
    /// Relative to the workspace.
    pub path: PathBuf,
    /// The whole content.
    pub content: String,
    /// Whether it may be executed.
    #[serde(default)]
    pub executable: bool,
}

/// A text to replace.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplaceStep {
    /// Relative to the workspace.
    pub path: PathBuf,
    /// What stands there, once.
    pub old: String,
    /// What shall stand there.
    pub new: String,
}

/// Why a play cannot be played.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlayError {
    /// The file cannot be read.
    #[error("cannot read the play `{}`: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is no play.
    #[error("`{}` is no play: {message}", .path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        message: String,
    },
    /// The file says nothing about the session.
    #[error("{0}")]
    NoPart(String),
    /// A step cannot be done.
    #[error("step {number} ({step}): {message}")]
    Step {
        /// Which, from 1.
        number: usize,
        /// Its kind.
        step: &'static str,
        /// Why.
        message: String,
    },
    /// The records cannot be printed.
    #[error("cannot print: {0}")]
    Output(#[from] std::io::Error),
}

impl Play {
    /// Reads a play file.
    ///
    /// # Errors
    ///
    /// [`PlayError::Read`] or [`PlayError::Format`].
    pub fn load(path: &Path) -> Result<Self, PlayError> {
        let text = std::fs::read_to_string(path).map_err(|source| PlayError::Read { path: path.to_owned(), source })?;
        Self::parse(&text).map_err(|message| PlayError::Format { path: path.to_owned(), message })
    }

    /// Reads a play.
    ///
    /// # Errors
    ///
    /// A message that says what is wrong and where.
    pub fn parse(text: &str) -> Result<Self, String> {
        let value = config::parse_yaml("play file", text).map_err(|error| error.to_string())?;
        let play: Self = serde_json::from_value(value).map_err(|error| error.to_string())?;
        for part in &play.plays {
            if part.sessions.is_empty() {
                return Err(format!("the play of task `{}` has no sessions", part.task));
            }
            let steps = part.sessions.iter().flat_map(|session| &session.steps);
            for step in steps {
                match step {
                    Step::Sleep(seconds) | Step::Cost(seconds) | Step::Throttled(seconds)
                        if !(seconds.is_finite() && *seconds >= 0.0) =>
                    {
                        return Err(format!(
                            "task `{}`: `{}: {seconds}` must be a number from 0",
                            part.task,
                            step.name()
                        ));
                    }
                    _ => {}
                }
            }
        }
        Ok(play)
    }

    /// Finds what happens in a session. A part for the task goes before one for `*`, then one for the label before one
    /// for any, then one for the phase before one for any; of equals the first.
    ///
    /// # Errors
    ///
    /// [`PlayError::NoPart`] with the tasks that there are plays for.
    pub fn session(&self, cue: &Cue<'_>) -> Result<&Session, PlayError> {
        let special = |part: &&Part| (part.task == cue.task, part.label.is_some(), part.phase.is_some());
        let index = usize::try_from(cue.session.saturating_sub(1)).unwrap_or(usize::MAX);
        self.plays
            .iter()
            .rev()
            .filter(|part| part.fits(cue))
            .max_by_key(special)
            .and_then(|part| part.sessions.get(index).or(part.sessions.last()))
            .ok_or_else(|| PlayError::NoPart(self.missing(cue)))
    }

    fn missing(&self, cue: &Cue<'_>) -> String {
        let named = |task: &str, phase: Option<&str>, label: Option<&str>| {
            let phase = phase.map(|phase| format!(" in phase `{phase}`")).unwrap_or_default();
            let label = label.map(|label| format!(" with label `{label}`")).unwrap_or_default();
            format!("`{task}`{phase}{label}")
        };
        let known = self.plays.iter().map(|part| named(&part.task, part.phase.as_deref(), part.label.as_deref()));
        let known = known.collect::<Vec<_>>().join(", ");
        format!("no play for task {}; there are plays for: {known}", named(cue.task, cue.phase, cue.label))
    }
}

/// Which session a play is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Cue<'a> {
    /// Id of the task.
    pub task: &'a str,
    /// Name of the phase, where there is one.
    pub phase: Option<&'a str>,
    /// Label of the session, where there is one.
    pub label: Option<&'a str>,
    /// Number of the session, from 1.
    pub session: u32,
}

impl<'a> Cue<'a> {
    /// Takes what counts from a scene.
    #[must_use]
    pub fn of(scene: &Scene<'a>) -> Self {
        Self { task: scene.task, phase: scene.phase, label: scene.label, session: scene.session }
    }
}

impl Part {
    fn fits(&self, cue: &Cue<'_>) -> bool {
        let phase = self.phase.is_none() || self.phase.as_deref() == cue.phase;
        let label = self.label.as_deref().is_none_or(|own| cue.label.is_some_and(|label| resembles(own, label)));
        (self.task == cue.task || self.task == "*") && phase && label
    }
}

/// Tells whether a text fits a pattern in which `*` stands for any text.
fn resembles(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(text) = text.strip_prefix(start) else { return false };
    (0..=text.len()).filter(|at| text.is_char_boundary(*at)).any(|at| resembles(rest, &text[at..]))
}

impl Step {
    /// Returns the step's name in a play file.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Message(_) => "message",
            Self::Write(_) => "write",
            Self::Replace(_) => "replace",
            Self::Delete(_) => "delete",
            Self::Run(_) => "run",
            Self::Sleep(_) => "sleep",
            Self::Usage(_) => "usage",
            Self::Cost(_) => "cost",
            Self::Throttled(_) => "throttled",
            Self::Fail(_) => "fail",
            Self::Refuse(_) => "refuse",
            Self::Limit(_) => "limit",
            Self::Provider(_) => "provider",
            Self::Exit(_) => "exit",
            Self::Hang(_) => "hang",
            Self::Noise(_) => "noise",
        }
    }
}
