//! Which models a session's requests asked for, which answered, and whether any did.

use rusqlite::params;

use super::Store;
use super::calls::host_of;
use super::row::Columns;
use super::worker::Ticket;
use crate::domain::AttemptId;
use crate::domain::failure::ProviderFault;

/// Requests of a session that asked for the same model and were answered by the same one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelUse {
    /// The model that they asked for.
    pub asked: Option<String>,
    /// The model that answered; unknown where no answer told it.
    pub served: Option<String>,
    /// How many they are.
    pub calls: u32,
    /// Of how many the cost is unknown.
    pub unknown_costs: u32,
}

/// What makes a call one to a model, of a session that is not stored yet and this host's.
const ASKS_A_MODEL: &str = "run_name = ?1 AND cell_id = ?2 AND attempt = ?3 AND session = ?4 AND host = ?5
  AND booked_as IS NULL AND api NOT IN ('anthropic_count_tokens', 'gemini_count_tokens', 'models')";

impl Store {
    /// Returns the models of a session that is not stored yet, as this host's gateway saw them, in the order in which they
    /// were asked first. Requests that nobody bills, and refused ones, are not among them.
    pub fn session_models(&self, attempt: &AttemptId, session: u32) -> Ticket<Vec<ModelUse>> {
        let (host, attempt) = (host_of(self.acting.as_deref()), attempt.clone());
        self.read(move |tx| {
            let mut statement = tx.prepare_cached(&format!(
                "SELECT model_asked, model_served, count(*) AS calls, count(*) - count(cost_micros) AS unknown_costs
                     FROM captured_calls WHERE {ASKS_A_MODEL} AND outcome IS NOT 'refused'
                     GROUP BY model_asked, model_served ORDER BY min(number)"
            ))?;
            let whose = params![attempt.run.as_str(), attempt.cell.as_str(), attempt.number, session, host];
            let mut rows = statement.query(whose)?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let row = Columns::of(row);
                found.push(ModelUse {
                    asked: row.known_text("model_asked")?,
                    served: row.known_text("model_served")?,
                    calls: row.small("calls")?,
                    unknown_costs: row.small("unknown_costs")?,
                });
            }
            Ok(found)
        })
    }

    /// Returns what came of the requests to models of a session that is not stored yet: whether one was answered, and where
    /// each failed at the provider, how the last one did. One that failed for what it asked is neither, and where the gateway
    /// refused one, that decides.
    pub fn session_answers(&self, attempt: &AttemptId, session: u32) -> Ticket<(bool, Option<Outage>)> {
        let (host, attempt) = (host_of(self.acting.as_deref()), attempt.clone());
        self.read(move |tx| {
            let mut statement = tx.prepare_cached(&format!(
                "SELECT status, outcome FROM captured_calls WHERE {ASKS_A_MODEL} ORDER BY number"
            ))?;
            let whose = params![attempt.run.as_str(), attempt.cell.as_str(), attempt.number, session, host];
            let mut rows = statement.query(whose)?;
            let mut outage: Option<Outage> = None;
            let (mut answered, mut is_theirs) = (false, true);
            while let Some(row) = rows.next()? {
                let row = Columns::of(row);
                let status = row.known_number("status")?;
                let fault = match (status, row.known_text("outcome")?.as_deref()) {
                    (_, Some("refused")) => return Ok((false, None)),
                    (Some(401..=403), _) => ProviderFault::Authentication,
                    (Some(404), _) => ProviderFault::UnknownModel,
                    (Some(429), _) => ProviderFault::RateLimited,
                    (Some(408 | 500..=599), _) => ProviderFault::Overloaded,
                    (None, Some("unreachable" | "upstream_cut" | "upstream_stalled")) => ProviderFault::Unreachable,
                    (status, _) => {
                        answered |= matches!(status, Some(200..=299));
                        is_theirs = false;
                        continue;
                    }
                };
                let calls = outage.map_or(0, |outage| outage.calls) + 1;
                outage = Some(Outage { calls, fault, status });
            }
            Ok((answered, outage.filter(|_| is_theirs)))
        })
    }
}

/// What every request of a session came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outage {
    /// How many they were.
    pub calls: u32,
    /// How the last one failed.
    pub fault: ProviderFault,
    /// The status of its answer, where there was one.
    pub status: Option<u64>,
}
