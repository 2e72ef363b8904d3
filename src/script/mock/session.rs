//! A session that never happened.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::domain::failure::{LimitKind, Timer};
use crate::domain::session::SessionEnd;
use crate::domain::{Micros, ModelRole, SessionRecord, SessionStatus, Usage};
use crate::script::port::{HostError, SessionCall};

/// What a mock session does. By default it completes at once, costs nothing and changes nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct MockSession {
    /// How it ends.
    pub status: SessionStatus,
    /// Why, where it does not complete.
    pub reason: Option<String>,
    /// The agent's last message.
    pub text: Option<String>,
    /// Virtual time it takes.
    pub duration: Duration,
    /// What it costs; unknown by default.
    pub cost: Option<Micros>,
    /// Tokens; unknown by default.
    pub usage: Usage,
    /// Exit code of the harness.
    pub exit_code: Option<i32>,
    /// Model turns.
    pub turns: Option<u64>,
    /// Tool calls.
    pub tool_calls: Option<u64>,
    /// Files it leaves; `None` removes one.
    pub files: BTreeMap<String, Option<Vec<u8>>>,
    /// It does not happen: this limit refuses it.
    pub refused: Option<String>,
    /// It does not end: the host ends the script for this reason.
    pub stopped: Option<String>,
}

/// Who plays a session, and what it may cost.
#[derive(Debug)]
pub(super) struct Cast {
    pub(super) model: String,
    pub(super) harness: String,
    pub(super) max_cost: Option<Micros>,
}

impl Default for MockSession {
    fn default() -> Self {
        Self {
            status: SessionStatus::Completed,
            reason: None,
            text: None,
            duration: Duration::ZERO,
            cost: None,
            usage: Usage::UNKNOWN,
            exit_code: Some(0),
            turns: None,
            tool_calls: None,
            files: BTreeMap::new(),
            refused: None,
            stopped: None,
        }
    }
}

impl MockSession {
    /// Makes a session that completes with a message.
    #[must_use]
    pub fn saying(text: &str) -> Self {
        Self { text: Some(text.to_owned()), ..Self::default() }
    }

    /// Adds a file that the session leaves.
    #[must_use]
    pub fn leaving(mut self, path: &str, content: &str) -> Self {
        self.files.insert(path.to_owned(), Some(content.as_bytes().to_vec()));
        self
    }

    /// Sets the virtual time it takes.
    #[must_use]
    pub fn taking(mut self, duration: Duration) -> Self {
        self.duration = duration;
        self
    }

    /// Tells whether the session does not happen at all.
    pub(super) fn is_refusal(&self) -> bool {
        self.refused.is_some()
    }

    /// Makes the record, with the limits of call and cast applied.
    pub(super) fn record(
        &self,
        call: &SessionCall,
        cast: Cast,
        index: u32,
        began: Duration,
    ) -> Result<SessionRecord, HostError> {
        if let Some(limit) = &self.refused {
            let message = self.reason.clone().unwrap_or_else(|| format!("the limit `{limit}` is reached"));
            return Err(HostError::Refused { limit: limit.clone(), message });
        }
        if let Some(message) = &self.stopped {
            return Err(HostError::Stop { message: message.clone() });
        }
        let cut_off = self.cut_off(call, cast.max_cost);
        // What is ended from outside has no exit code of its own.
        let exit_code = self.exit_code.filter(|_| cut_off.is_none());
        let (end, duration) = cut_off.unwrap_or_else(|| (self.end(), self.duration));
        let started_at =
            SignedDuration::try_from(began).ok().and_then(|began| Timestamp::UNIX_EPOCH.checked_add(began).ok());
        Ok(SessionRecord {
            index,
            phase: call.phase.clone(),
            label: call.label.clone(),
            role: match &call.model {
                Some(_) => None,
                None => ModelRole::parse(call.role.as_deref().unwrap_or("implementation")),
            },
            harness: cast.harness,
            model: cast.model,
            end,
            exit_code,
            signal: None,
            text: self.text.clone(),
            usage: self.usage,
            cost: self.cost,
            reported_cost: None,
            turns: self.turns,
            tool_calls: self.tool_calls,
            harness_session: Some(format!("mock-{index}")),
            started_at: started_at.unwrap_or(Timestamp::UNIX_EPOCH),
            duration,
            ..SessionRecord::completed(index, Timestamp::UNIX_EPOCH, "")
        })
    }

    /// Tells how a session ends that takes too long or costs too much, and when.
    fn cut_off(&self, call: &SessionCall, max_cost: Option<Micros>) -> Option<(SessionEnd, Duration)> {
        if let Some(limit) = call.timeout
            && self.duration > limit
        {
            return Some((SessionEnd::TimedOut { timer: Timer::Session, limit, elapsed: limit }, limit));
        }
        let (limit, spent) = max_cost.zip(self.cost)?;
        let message = format!("cost limit of {limit} reached: {spent} spent");
        (spent > limit).then_some((SessionEnd::Limit { limit: LimitKind::Cost, message }, self.duration))
    }

    fn end(&self) -> SessionEnd {
        let message = self.reason.clone().unwrap_or_else(|| self.status.as_str().to_owned());
        match self.status {
            SessionStatus::Completed => SessionEnd::Completed,
            SessionStatus::Failed => SessionEnd::AgentFailed { message },
            SessionStatus::TimedOut => {
                SessionEnd::TimedOut { timer: Timer::Session, limit: self.duration, elapsed: self.duration }
            }
            SessionStatus::Limit => SessionEnd::Limit { limit: LimitKind::Turns, message },
            SessionStatus::NotStarted => SessionEnd::NotStarted { message },
        }
    }
}
