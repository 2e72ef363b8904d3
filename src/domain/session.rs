//! Sessions: one prompt given to a harness, and everything that is known about it.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::exchange::UsageSource;
use super::failure::{LimitKind, ProviderFault, Timer, names};
use super::model::ModelRole;
use super::money::Micros;
use super::usage::Usage;

/// How a session ended, as scripts see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    /// The agent finished its turn.
    Completed,
    /// The agent reported a failure or crashed.
    Failed,
    /// A timer stopped it.
    TimedOut,
    /// A limit stopped it.
    Limit,
    /// It never called a model or printed an event.
    NotStarted,
}

names!(SessionStatus {
    Completed => "completed",
    Failed => "failed",
    TimedOut => "timed_out",
    Limit => "limit",
    NotStarted => "not_started",
});

/// The one cause of a session's end, decided in the order: our watchdog or limit, our deadline, the log, the exit code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum SessionEnd {
    /// A completed turn is on record.
    Completed,
    /// The log or the exit code says that the agent failed.
    AgentFailed {
        /// Why.
        message: String,
    },
    /// The agent declined.
    Refused {
        /// Its words.
        message: String,
    },
    /// One of our timers stopped it.
    TimedOut {
        /// Which.
        timer: Timer,
        /// Its value.
        limit: Duration,
        /// What was measured.
        elapsed: Duration,
    },
    /// One of our limits, or one of the harness's own, stopped it.
    Limit {
        /// Which.
        limit: LimitKind,
        /// Its value and what was measured.
        message: String,
    },
    /// Nothing shows that it ever began.
    NotStarted {
        /// Exit code and last lines.
        message: String,
    },
    /// The provider refused.
    Provider {
        /// How.
        fault: ProviderFault,
        /// Its words.
        message: String,
    },
    /// What the user wrote lets it not go on: it asked for a model without a price although a ceiling is to hold.
    Misconfigured {
        /// What of it, and what to do.
        message: String,
    },
    /// The environment, the connection or the log was lost.
    Lost {
        /// What is known.
        message: String,
    },
    /// The run was cancelled.
    Cancelled,
}

impl SessionEnd {
    /// Returns the status that scripts see.
    #[must_use]
    pub fn status(&self) -> SessionStatus {
        match self {
            Self::Completed => SessionStatus::Completed,
            Self::TimedOut { .. } => SessionStatus::TimedOut,
            Self::Limit { .. } => SessionStatus::Limit,
            Self::NotStarted { .. } => SessionStatus::NotStarted,
            Self::AgentFailed { .. }
            | Self::Refused { .. }
            | Self::Provider { .. }
            | Self::Misconfigured { .. }
            | Self::Lost { .. }
            | Self::Cancelled => SessionStatus::Failed,
        }
    }

    /// Says in one line why the session ended.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::Completed => "completed".to_owned(),
            Self::AgentFailed { message }
            | Self::Refused { message }
            | Self::Limit { message, .. }
            | Self::NotStarted { message }
            | Self::Provider { message, .. }
            | Self::Misconfigured { message }
            | Self::Lost { message } => message.clone(),
            Self::TimedOut { timer, limit, elapsed } => format!(
                "{} timeout of {:.1} s after {:.1} s",
                format!("{timer:?}").to_lowercase(),
                limit.as_secs_f64(),
                elapsed.as_secs_f64()
            ),
            Self::Cancelled => "cancelled".to_owned(),
        }
    }
}

/// The entry of a price file that a cost was computed by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PriceSource {
    /// The file.
    pub file: String,
    /// The model, or the pattern of models, that the entry names.
    pub model: String,
    /// The day the price was looked up.
    pub date: String,
    /// Where.
    pub source: String,
}

/// What of a session's record another reading of its log may say anew. Texts are redacted before they get here.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FromLog {
    /// Whether the log or the exit code decided how it ended, and not a timer, a limit or a stop of the host.
    pub decides_end: bool,
    /// Whether the host ended a process that had told its end and went on running.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outlived_end: bool,
    /// Whether it went on with an earlier session.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resumed: bool,
    /// Those warnings of the record that came of the reading.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// What is on record about one session. Texts are redacted before they get here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// Its number in the attempt, from 1.
    pub index: u32,
    /// The phase it belongs to.
    pub phase: Option<String>,
    /// The script's label.
    pub label: Option<String>,
    /// The role that its model was chosen by; unknown where the script named the model, and in older records.
    #[serde(default)]
    pub role: Option<ModelRole>,
    /// The harness that ran it.
    pub harness: String,
    /// The model it was told to use.
    pub model: String,
    /// How it ended.
    pub end: SessionEnd,
    /// The process's exit code; unknown where none was seen.
    pub exit_code: Option<i32>,
    /// The signal that ended the process.
    pub signal: Option<i32>,
    /// The agent's last message.
    pub text: Option<String>,
    /// Tokens, by `usage_source`.
    pub usage: Usage,
    /// Price of the tokens, or what the harness reported where no price is known.
    pub cost: Option<Micros>,
    /// What it has cost at least, where the whole cost is unknown and a part of it is known; unknown in older records.
    #[serde(default)]
    pub cost_at_least: Option<Micros>,
    /// What the harness itself reported.
    pub reported_cost: Option<Micros>,
    /// Who counted `usage` and `cost`; unknown in older records.
    #[serde(default)]
    pub usage_source: Option<UsageSource>,
    /// Requests that the gateway saw, the refused ones included; unknown where the session did not go through it.
    #[serde(default)]
    pub api_calls: Option<u64>,
    /// Tokens as the harness reported them, also where the gateway counted.
    #[serde(default)]
    pub reported_usage: Usage,
    /// Price of the tokens that the harness reported.
    #[serde(default)]
    pub reported_priced: Option<Micros>,
    /// Where the harness's figures differ from those of the gateway by more than they may, a line for each.
    #[serde(default)]
    pub discrepancies: Vec<String>,
    /// What the cost was computed by; `None` where it is unknown or the harness's own figure, and in older records.
    #[serde(default)]
    pub price: Option<PriceSource>,
    /// Whether its cost stays off the budget; unknown in older records.
    #[serde(default)]
    pub exempt: Option<bool>,
    /// Model turns.
    pub turns: Option<u64>,
    /// Tool calls.
    pub tool_calls: Option<u64>,
    /// The harness's own id of the session, for its resume.
    pub harness_session: Option<String>,
    /// When it began, by the wall clock.
    pub started_at: Timestamp,
    /// How long it ran, by the monotonic clock.
    pub duration: Duration,
    /// The longest time without output.
    pub longest_silence: Option<Duration>,
    /// What a reader should know: left-over processes, conflicting results, cut output.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// What of this another reading of the log may say anew; unknown in older records, and where there was no log to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_log: Option<FromLog>,
}

impl SessionRecord {
    /// Makes the record of a session that finished its turn and said `text`; what nobody measured is unknown.
    ///
    /// For hosts with sessions of their own: set what is known by struct update.
    #[must_use]
    pub fn completed(index: u32, started_at: Timestamp, text: impl Into<String>) -> Self {
        Self {
            index,
            phase: None,
            label: None,
            role: None,
            harness: String::new(),
            model: String::new(),
            end: SessionEnd::Completed,
            exit_code: None,
            signal: None,
            text: Some(text.into()),
            usage: Usage::UNKNOWN,
            cost: None,
            cost_at_least: None,
            reported_cost: None,
            usage_source: None,
            api_calls: None,
            reported_usage: Usage::UNKNOWN,
            reported_priced: None,
            discrepancies: Vec::new(),
            price: None,
            exempt: None,
            turns: None,
            tool_calls: None,
            harness_session: None,
            started_at,
            duration: Duration::ZERO,
            longest_silence: None,
            warnings: Vec::new(),
            from_log: None,
        }
    }

    /// Returns what it has cost as far as that is known: the whole cost, or the part of it that is.
    #[must_use]
    pub fn known_cost(&self) -> Micros {
        self.cost.or(self.cost_at_least).unwrap_or(Micros::ZERO)
    }

    /// Returns the part of [`SessionRecord::known_cost`] that counts against the budget.
    #[must_use]
    pub fn known_billable(&self) -> Micros {
        if self.exempt == Some(true) { Micros::ZERO } else { self.known_cost() }
    }

    /// Returns the part of its cost that counts against the budget: nothing where it is exempt, and unknown where the
    /// cost is.
    #[must_use]
    pub fn billable(&self) -> Option<Micros> {
        if self.exempt == Some(true) { Some(Micros::ZERO) } else { self.cost }
    }

    /// Returns the status that scripts see.
    #[must_use]
    pub fn status(&self) -> SessionStatus {
        self.end.status()
    }

    /// Tells whether the agent finished its turn.
    #[must_use]
    pub fn ok(&self) -> bool {
        self.status() == SessionStatus::Completed
    }
}
