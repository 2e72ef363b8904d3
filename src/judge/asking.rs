//! Asks a judge for its answers, each again where it could not be used, and adds them up.

use std::time::Duration;

use async_trait::async_trait;

use super::answer::{self, Scores};
use super::prompt::Prompt;
use super::tally::tally;
use super::wire;
use crate::clock::Clock;
use crate::config::judge::JudgePlan;
use crate::domain::judgement::{CriterionScore, JudgeAnswer};
use crate::domain::rubric::Rubric;
use crate::redact::Redactor;
use crate::retry::backoff;

/// Bytes of an answer that are kept.
const RAW_KEPT: usize = 8 * 1024;

/// What a provider answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

/// A request got no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DoorError {
    /// Why.
    pub message: String,
}

/// The way to a judge.
#[async_trait]
pub trait Door: Send + Sync {
    /// Sends a request and returns the whole answer. Dropping the future gives the request up.
    ///
    /// # Errors
    ///
    /// [`DoorError`] where no answer came.
    async fn post(&self, path: &str, body: Vec<u8>) -> Result<Reply, DoorError>;
}

/// What came of asking a judge.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Asked {
    /// The score from 0 to 1; unknown where an answer could not be had.
    pub score: Option<f64>,
    /// The difference between the highest and the lowest score of the answers.
    pub spread: Option<f64>,
    /// The points by criterion.
    pub criteria: Vec<CriterionScore>,
    /// Why there is no score.
    pub error: Option<String>,
    /// Every request in order.
    pub answers: Vec<JudgeAnswer>,
}

/// One try at an answer.
enum Try {
    Scores(Scores),
    /// No answer; whether and after what wait another try may bring one.
    Failed {
        error: String,
        again: Option<Wait>,
    },
}

/// How long before another try.
enum Wait {
    None,
    Backoff,
}

/// Asks a judge for as many answers as its plan says. All of them must be usable: a score over those that happen to be
/// would leave out others not by chance.
pub async fn ask(
    judge: &JudgePlan,
    (prompt, rubric): (&Prompt, &Rubric),
    door: &dyn Door,
    clock: &dyn Clock,
    redactor: &Redactor,
) -> Asked {
    let mut asked = Asked::default();
    let mut usable = Vec::new();
    for sample in 1..=judge.samples {
        match answer(judge, (prompt, rubric), door, (clock, redactor), (sample, &mut asked.answers)).await {
            Ok(scores) => usable.push(scores),
            Err(error) => {
                asked.error = Some(error);
                return asked;
            }
        }
    }
    if let Some(tally) = tally(rubric, &usable) {
        (asked.score, asked.spread, asked.criteria) = (Some(tally.score), tally.spread, tally.criteria);
    }
    asked
}

/// Gets one answer, within the tries that there are for it.
async fn answer(
    judge: &JudgePlan,
    (prompt, rubric): (&Prompt, &Rubric),
    door: &dyn Door,
    (clock, redactor): (&dyn Clock, &Redactor),
    (sample, all): (u32, &mut Vec<JudgeAnswer>),
) -> Result<Scores, String> {
    let mut attempt = 1;
    loop {
        let mut raw = String::new();
        let tried = once(judge, (prompt, rubric), door, clock, &mut raw).await;
        let raw = redactor.redact(&kept(&raw)).into_string();
        let note = |points, error| JudgeAnswer { sample, attempt, points, error, raw: raw.clone() };
        let (error, again) = match tried {
            Try::Scores(mut scores) => {
                all.push(note(Some(scores.points.clone()), None));
                for reason in &mut scores.reasons {
                    *reason = redactor.redact(reason).into_string();
                }
                return Ok(scores);
            }
            Try::Failed { error, again } => (redactor.redact(&error).into_string(), again),
        };
        all.push(note(None, Some(error.clone())));
        let Some(wait) = again.filter(|_| attempt <= judge.retries) else { return Err(error) };
        if let Wait::Backoff = wait {
            clock.sleep(backoff(attempt, 0.5, None)).await;
        }
        attempt += 1;
    }
}

async fn once(
    judge: &JudgePlan,
    (prompt, rubric): (&Prompt, &Rubric),
    door: &dyn Door,
    clock: &dyn Clock,
    raw: &mut String,
) -> Try {
    let (path, body) = wire::request(judge, prompt);
    let reply = tokio::select! {
        reply = door.post(&path, body.to_string().into_bytes()) => reply,
        () = clock.sleep(judge.timeout) => Err(DoorError { message: late(judge.timeout) }),
    };
    let reply = match reply {
        Ok(reply) => reply,
        Err(error) => return Try::Failed { error: error.to_string(), again: Some(Wait::Backoff) },
    };
    *raw = String::from_utf8_lossy(&reply.body).into_owned();
    if reply.status != 200 {
        let error = format!("status {}: {}", reply.status, wire::complaint(&reply.body));
        return Try::Failed { error, again: is_passing(reply.status).then_some(Wait::Backoff) };
    }
    let said = serde_json::from_slice(&reply.body)
        .map_err(|error| format!("the provider's answer is no JSON: {error}"))
        .and_then(|answer| wire::said(judge.interface, &answer));
    if let Ok(text) = &said {
        raw.clone_from(text);
    }
    match said.and_then(|text| answer::parse(&text, rubric)) {
        Ok(scores) => Try::Scores(scores),
        Err(error) => Try::Failed { error, again: Some(Wait::None) },
    }
}

fn late(limit: Duration) -> String {
    format!("no answer within {} s", limit.as_secs_f64())
}

/// Tells whether a status may be another one soon.
fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 409 | 429) || status >= 500
}

/// Keeps the beginning of an overlong answer.
fn kept(text: &str) -> String {
    if text.len() <= RAW_KEPT {
        return text.to_owned();
    }
    let mut end = RAW_KEPT;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}\n[refrain: {} bytes left out]", &text[..end], text.len() - end)
}

#[cfg(test)]
#[path = "asking/tests.rs"]
mod tests;
