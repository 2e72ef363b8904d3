//! Exchanges: one request to a model provider and its answer, as the gateway books it.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::cell::CellId;
use super::failure::names;
use super::model::ModelRole;
use super::money::Micros;
use super::name::RunName;
use super::usage::Usage;

/// What an exchange was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trace {
    /// The agent's work.
    #[default]
    Agent,
    /// A judge's verdict on it.
    Judge,
    /// The calibration of a judge.
    Calibration,
    /// A check of the gateway itself, or of its numbers against a provider's.
    Check,
}

names!(Trace { Agent => "agent", Judge => "judge", Calibration => "calibration", Check => "check" });

/// On whose account an exchange goes: what a capability stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attribution {
    /// The run.
    pub run: RunName,
    /// The cell; none outside a run's cells.
    pub cell: Option<CellId>,
    /// Which attempt at it, from 1.
    pub attempt: u32,
    /// Which session of the attempt, from 1.
    pub session: u32,
    /// The phase of the session.
    pub phase: Option<String>,
    /// The role that the session's model was chosen by.
    pub role: Option<ModelRole>,
    /// What for.
    pub trace: Trace,
}

/// How an exchange ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ExchangeEnd {
    /// The whole answer went to the client.
    Complete,
    /// The client went away before the answer was whole. What the provider bills is then not known.
    ClientGone,
    /// The provider's answer broke off, or ended without its final event.
    UpstreamCut,
    /// The provider was silent for too long.
    UpstreamStalled,
    /// No connection to the provider.
    Unreachable,
    /// The gateway refused: nothing was sent to the provider.
    Refused,
    /// The host died or was stopped while the exchange was under way.
    Lost,
}

names!(ExchangeEnd {
    Complete => "complete",
    ClientGone => "client_gone",
    UpstreamCut => "upstream_cut",
    UpstreamStalled => "upstream_stalled",
    Unreachable => "unreachable",
    Refused => "refused",
    Lost => "lost",
});

/// One request to a provider and what came of it. Texts are redacted before they get here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exchange {
    /// Unique among all exchanges of all gateways.
    pub id: String,
    /// Whose it is.
    pub attribution: Attribution,
    /// Its number in the session, from 1, in the order in which requests came.
    pub number: u32,
    /// The provider that it went to.
    pub provider: String,
    /// The interface it spoke: `anthropic_messages`, `openai_chat`, ….
    pub api: String,
    /// The model that the request named.
    pub model_asked: Option<String>,
    /// The model that the answer named.
    pub model_served: Option<String>,
    /// The status that the client saw; unknown where it saw none.
    pub status: Option<u16>,
    /// How it ended.
    pub end: ExchangeEnd,
    /// Tokens, as the provider told them. All zero where nothing can have been billed; unknown where nobody can tell.
    pub usage: Usage,
    /// Their price; unknown where tokens or price are.
    pub cost: Option<Micros>,
    /// How many earlier requests of the session with the same body came to nothing: 0 for a first try.
    pub retry: u32,
    /// When the request came, by the wall clock.
    pub started_at: Timestamp,
    /// From the request's last byte to the answer's first.
    pub first_byte: Option<Duration>,
    /// From the request's first byte to the end.
    pub duration: Duration,
    /// Size of the request's body in bytes.
    pub request_bytes: u64,
    /// Size of the answer's body in bytes, as it passed.
    pub answer_bytes: u64,
    /// The error that the provider or the gateway told, in one line.
    pub message: Option<String>,
}

/// Where a session's figures come from. The gateway is the authority for what it saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageSource {
    /// The gateway counted what passed.
    Gateway,
    /// The harness's own output, or a file it left.
    Harness,
}

names!(UsageSource { Gateway => "gateway", Harness => "harness" });
