//! What judges said, and the money for asking them, which is no session's.

use jiff::Timestamp;
use rusqlite::{Connection, named_params};

use super::Store;
use super::calls::{self, CallSums};
use super::error::Fault;
use super::ledger::{self, LedgerEntry, LedgerKind};
use super::row::Columns;
use super::worker::Ticket;
use crate::domain::{AttemptId, CellId, JudgeRecord, Micros, RunName};

/// What the entries of the ledger are for that hold a judge's cost. Nothing else begins so.
const JUDGE: &str = "judge";

/// What a judge said of the attempt that a cell's result is that of.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// The cell.
    pub cell: CellId,
    /// The attempt.
    pub attempt: u32,
    /// What was said, or why nothing was.
    pub record: JudgeRecord,
}

impl Store {
    /// Books what an attempt's judge was asked so far and is on no entry yet, by this host or by one that died: what is
    /// known, an unknown amount beside it where that may not be all, and as much less in the attempt's reservation.
    /// Returns the sums of what was booked now; where that is nothing, nothing is booked.
    pub fn book_judge(&self, attempt: &AttemptId, exempt: bool, at: Timestamp) -> Ticket<CallSums> {
        let (host, attempt) = (calls::host_of(self.acting.as_deref()), attempt.clone());
        self.write(move |tx| book(tx, &host, &attempt, exempt, at))
    }

    /// Returns what judges said of the results of a run.
    pub fn judgements(&self, run: &RunName) -> Ticket<Vec<Judgement>> {
        let run = run.clone();
        self.read(move |tx| {
            let mut statement = tx.prepare_cached(
                "SELECT cell_id, attempt, json_extract(a.record_json, '$.judge') AS judge
                 FROM run_results AS r JOIN attempts AS a USING (run_name, cell_id, attempt)
                 WHERE run_name = ?1 AND json_extract(a.record_json, '$.judge') IS NOT NULL ORDER BY cell_id",
            )?;
            let mut rows = statement.query([run.as_str()])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let row = Columns::of(row);
                found.push(Judgement { cell: row.cell()?, attempt: row.small("attempt")?, record: row.json("judge")? });
            }
            Ok(found)
        })
    }
}

fn book(tx: &Connection, host: &str, id: &AttemptId, exempt: bool, at: Timestamp) -> Result<CallSums, Fault> {
    let reference = ledger::unused(tx, id, LedgerKind::Spend, JUDGE)?;
    tx.prepare_cached(
        "UPDATE captured_calls SET booked_as = :reference,
           outcome = iif(host = :host, outcome, coalesce(outcome, 'lost'))
         WHERE run_name = :run AND cell_id = :cell AND attempt = :attempt AND trace = 'judge' AND booked_as IS NULL",
    )?
    .execute(named_params! {
        ":reference": reference,
        ":host": host,
        ":run": id.run.as_str(),
        ":cell": id.cell.as_str(),
        ":attempt": id.number,
    })?;
    let sums = calls::booked(tx, id, &reference)?;
    if sums.calls == 0 {
        return Ok(sums);
    }
    let spend = LedgerEntry {
        attempt: id.clone(),
        kind: LedgerKind::Spend,
        reference,
        amount: None,
        billable: None,
        at,
        note: None,
    };
    calls::book_sums(tx, &spend, &sums, exempt)?;
    let billable = if exempt { Micros::ZERO } else { sums.known_cost };
    let freed = billable.min(super::reserves::held(tx, id)?);
    if freed > Micros::ZERO {
        let release = LedgerEntry { kind: LedgerKind::Release, amount: Some(-freed), billable: Some(-freed), ..spend };
        ledger::append(tx, &release)?;
    }
    Ok(sums)
}

/// Tells whether an entry of the ledger holds a judge's cost.
#[must_use]
pub fn is_of_a_judge(reference: &str) -> bool {
    reference == JUDGE || reference.starts_with("judge ") || reference.starts_with("judge,")
}
