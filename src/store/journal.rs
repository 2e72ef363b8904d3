//! The journal: what a script asked its host and was answered, kept so that a script can be run over it again.

use jiff::Timestamp;
use rusqlite::params;

use super::Store;
use super::error::StoreError;
use super::fence::{self, Standing};
use super::row::{Columns, time};
use super::worker::Ticket;
use crate::domain::AttemptId;

/// One call of a script and its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalEntry {
    /// Its place in the attempt, from 0.
    pub seq: u64,
    /// The name of the call.
    pub call: String,
    /// A hash of its arguments.
    pub args_hash: String,
    /// When it was made.
    pub at: Timestamp,
    /// The answer as JSON; `None` while the call is under way.
    pub answer: Option<String>,
}

impl Store {
    /// Records a call, with its answer or before there is one. Await an answer's commit before the script sees it.
    /// Fails with [`StoreError::LeaseLost`] where another host has the attempt by now.
    ///
    /// An answer that is on record is never changed; a call under way gets its answer by the same entry with one.
    pub fn journal_append(&self, attempt: &AttemptId, entry: &JournalEntry) -> Ticket<()> {
        let (acting, attempt, entry) = (self.acting.clone(), attempt.clone(), entry.clone());
        self.write(move |tx| {
            if fence::standing(tx, acting.as_deref(), &attempt)? != Standing::Held {
                return Err(StoreError::LeaseLost { run: attempt.run.clone() }.into());
            }
            tx.prepare_cached(
                "INSERT INTO journal (run_name, cell_id, attempt, seq, call, args_hash, at, answer)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
                 ON CONFLICT (run_name, cell_id, attempt, seq) DO UPDATE SET answer = excluded.answer
                 WHERE answer IS NULL AND call = excluded.call AND args_hash = excluded.args_hash",
            )?
            .execute(params![
                attempt.run.as_str(),
                attempt.cell.as_str(),
                attempt.number,
                super::row::count(entry.seq),
                entry.call,
                entry.args_hash,
                time(entry.at),
                entry.answer
            ])?;
            Ok(())
        })
    }

    /// Returns the journal of an attempt in order.
    pub fn journal(&self, attempt: &AttemptId) -> Ticket<Vec<JournalEntry>> {
        let attempt = attempt.clone();
        self.read(move |tx| {
            let mut statement = tx.prepare_cached(
                "SELECT seq, call, args_hash, at, answer FROM journal
                 WHERE run_name = ?1 AND cell_id = ?2 AND attempt = ?3 ORDER BY seq",
            )?;
            let mut rows = statement.query(params![attempt.run.as_str(), attempt.cell.as_str(), attempt.number])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let row = Columns::of(row);
                found.push(JournalEntry {
                    seq: row.number("seq")?,
                    call: row.text("call")?,
                    args_hash: row.text("args_hash")?,
                    at: row.time("at")?,
                    answer: row.known_text("answer")?,
                });
            }
            Ok(found)
        })
    }
}
