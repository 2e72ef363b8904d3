//! What is under way right now, for those who look on.

use jiff::Timestamp;

use super::Store;
use super::attempts;
use super::owner::Owner;
use super::row::{Columns, parse_state};
use super::worker::Ticket;
use crate::domain::{AttemptId, AttemptState, RunName};

/// An attempt under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenAttempt {
    /// Which.
    pub id: AttemptId,
    /// The process that runs it.
    pub owner: Owner,
    /// When it began.
    pub started_at: Timestamp,
    /// The step it is at.
    pub state: AttemptState,
    /// Since when.
    pub since: Timestamp,
    /// Sessions that have ended.
    pub sessions: u64,
}

impl Store {
    /// Returns the attempts of a run that are under way by their rows, the oldest first.
    pub fn open_attempts(&self, run: &RunName) -> Ticket<Vec<OpenAttempt>> {
        let run = run.clone();
        self.read(move |tx| {
            let mut statement = tx.prepare_cached(
                "SELECT a.*, coalesce(t.to_state, 'pending') AS state, coalesce(t.at, a.started_at) AS since,
                   (SELECT count(*) FROM sessions AS s
                    WHERE s.run_name = a.run_name AND s.cell_id = a.cell_id AND s.attempt = a.attempt) AS sessions
                 FROM attempts AS a LEFT JOIN transitions AS t
                   ON t.run_name = a.run_name AND t.cell_id = a.cell_id AND t.attempt = a.attempt
                   AND t.seq = (SELECT max(seq) FROM transitions AS l
                     WHERE l.run_name = a.run_name AND l.cell_id = a.cell_id AND l.attempt = a.attempt)
                 WHERE a.run_name = ?1 AND a.record_json IS NULL AND a.ended_at IS NULL
                 ORDER BY a.started_at, a.cell_id",
            )?;
            let mut rows = statement.query([run.as_str()])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let row = Columns::of(row);
                found.push(OpenAttempt {
                    id: attempts::attempt_id(&row)?,
                    owner: attempts::owner(&row)?,
                    started_at: row.time("started_at")?,
                    state: row.named("state", parse_state)?,
                    since: row.time("since")?,
                    sessions: row.number("sessions")?,
                });
            }
            Ok(found)
        })
    }
}
