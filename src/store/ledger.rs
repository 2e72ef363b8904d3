//! Money: signed entries that are only ever added, and sums over them.
//!
//! Reserve → run → settle. A session's cost is booked by [`Store::add_session`] in the transaction that stores the
//! session, and lowers what the attempt still holds in reserve; what is left is released by [`Store::finish_attempt`],
//! unless the cost of a session is unknown: then it goes on to count against the cap.
//! So at every commit *spent + reserved* is what a run may have cost at most, as far as costs are known.

use jiff::Timestamp;
use rusqlite::{Connection, named_params, params};

use super::attempts::AttemptStart;
use super::error::Fault;
use super::row::{Columns, money, time};
use super::worker::Ticket;
use super::{Store, attempts, reserves, sessions, settling};
use crate::budget;
use crate::domain::{AttemptId, Micros, RunName};

/// What an entry does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LedgerKind {
    /// Money is promised; amounts are positive.
    Reserve,
    /// A promise is taken back; amounts are negative.
    Release,
    /// Money is gone.
    Spend,
}

impl LedgerKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Reserve, Self::Release, Self::Spend];

    /// Returns the name used in SQL.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reserve => "reserve",
            Self::Release => "release",
            Self::Spend => "spend",
        }
    }

    /// Finds a kind by its name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// One entry. Attempt, kind and reference together make it unique: booking it again changes nothing, except that an
/// amount that was unknown may become known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerEntry {
    /// Whose money.
    pub attempt: AttemptId,
    /// What it does.
    pub kind: LedgerKind,
    /// What it is for: `cell`, `s3` (a session), `judge`, ….
    pub reference: String,
    /// The money, whoever pays. Only a spend's may be unknown.
    pub amount: Option<Micros>,
    /// The part that counts against the budget: all of it, or zero where the cell is exempt.
    pub billable: Option<Micros>,
    /// When.
    pub at: Timestamp,
    /// For people.
    pub note: Option<String>,
}

/// The sums of a run's ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LedgerTotals {
    /// Spent and counted against the budget; a lower bound where `unknown` > 0.
    pub billable_spent: Micros,
    /// Promised to attempts that are under way.
    pub reserved: Micros,
    /// What attempts that were cut off, or whose sessions are of unknown cost, may have spent beyond what is known: the
    /// rest of their reservations, which counts against the cap until the real figure is found.
    pub assumed: Micros,
    /// Spent by anyone, the exempt included; a lower bound where `unknown` > 0.
    pub total: Micros,
    /// Spends whose amount nobody knows.
    pub unknown: usize,
}

impl LedgerTotals {
    /// Returns what is left of a cap: negative where it is overspent.
    #[must_use]
    pub fn remaining(&self, cap: Micros) -> Micros {
        cap - self.billable_spent - self.assumed - self.reserved
    }
}

/// What an attempt may spend, by one look at the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Allowance {
    /// The sums of its run.
    pub totals: LedgerTotals,
    /// What it holds in reserve.
    pub reserved: Micros,
    /// What its sessions on record count for against the budget.
    pub billed: Micros,
}

impl Allowance {
    /// Returns what its sessions may count for in the end: what they do by now, and what the cap leaves to it.
    #[must_use]
    pub fn limit(&self, cap: Micros) -> Micros {
        self.billed + self.totals.remaining(cap) + self.reserved
    }
}

/// A request for money.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// For which attempt.
    pub attempt: AttemptId,
    /// What the cell is expected to cost.
    pub estimate: Micros,
    /// The run's cap; `Some(0)` is a real cap.
    pub cap: Option<Micros>,
    /// Whether the cell does not count against the budget.
    pub exempt: bool,
    /// When.
    pub at: Timestamp,
}

/// Whether a cell may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It may; what was asked for is reserved.
    Admitted,
    /// It may not; nothing was reserved.
    Refused {
        /// What is left of the cap; negative where it is overspent.
        remaining: Micros,
        /// What was asked for.
        estimate: Micros,
    },
}

/// Prints why a cell is skipped.
impl std::fmt::Display for Admission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Admitted => f.write_str("admitted"),
            Self::Refused { remaining, estimate } => match budget::admit(Some(*remaining), *estimate, false) {
                budget::Admission::Skip { reason } => f.write_str(&reason),
                // A refusal that the policy would admit is none of ours.
                budget::Admission::Run => write!(f, "Budget cap reached ({remaining} remaining)"),
            },
        }
    }
}

impl Store {
    /// Reserves money for an attempt if the cap leaves it: the sum is read and the entry written under one lock, across
    /// all processes. Asking again for the same attempt answers `Admitted` without reserving twice.
    ///
    /// Refused iff the cell is not exempt and nothing, or less than the estimate, remains.
    pub fn reserve(&self, request: &Reservation) -> Ticket<Admission> {
        let request = request.clone();
        self.write(move |tx| reserve(tx, &request))
    }

    /// Claims a cell for an attempt like [`Store::begin_attempt`], and reserves money for it like [`Store::reserve`]: both or
    /// neither. So a claim that fails holds no money, and touches none that another process holds under the same number.
    pub fn claim_attempt(&self, start: &AttemptStart, reservation: Option<&Reservation>) -> Ticket<Admission> {
        let (start, reservation) = (start.clone(), reservation.cloned());
        self.write(move |tx| {
            let admission = reservation.as_ref().map_or(Ok(Admission::Admitted), |request| reserve(tx, request))?;
            if admission == Admission::Admitted {
                attempts::begin(tx, &start)?;
            }
            Ok(admission)
        })
    }

    /// Gives back what an attempt still holds in reserve: where its cell cannot be had after all.
    pub fn release(&self, attempt: &AttemptId, at: Timestamp) -> Ticket<()> {
        let attempt = attempt.clone();
        self.write(move |tx| reserves::release_rest(tx, &attempt, "released", at))
    }

    /// Returns what an attempt holds in reserve.
    pub fn reserved(&self, attempt: &AttemptId) -> Ticket<Micros> {
        let attempt = attempt.clone();
        self.read(move |tx| reserves::held(tx, &attempt))
    }

    /// Returns what an attempt may spend. All of it is read at one moment: a session that ends meanwhile counts either
    /// in all of the figures or in none.
    pub fn allowance(&self, attempt: &AttemptId) -> Ticket<Allowance> {
        let attempt = attempt.clone();
        self.read(move |tx| {
            let (totals, reserved) = (totals(tx, &attempt.run)?, reserves::held(tx, &attempt)?);
            Ok(Allowance { totals, reserved, billed: sessions::billed(tx, &attempt)? })
        })
    }

    /// Returns what a cell has cost as far as it is known, but for the sessions of one attempt that are on record: those
    /// of earlier attempts, and what hosts of this one that died have spent. Judges are no part of it.
    pub fn cell_spent_beside(&self, attempt: &AttemptId) -> Ticket<Micros> {
        let attempt = attempt.clone();
        self.read(move |tx| {
            let mut sum = tx.prepare_cached(
                "SELECT coalesce(sum(amount_micros), 0) FROM ledger
                 WHERE run_name = ?1 AND cell_id = ?2 AND kind = 'spend' AND reference NOT LIKE 'judge%'
                   AND (attempt <> ?3 OR instr(reference, ' ') > 0)",
            )?;
            let whose = params![attempt.run.as_str(), attempt.cell.as_str(), attempt.number];
            Ok(Micros::new(sum.query_row(whose, |row| row.get(0))?))
        })
    }

    /// Books an entry.
    pub fn ledger_append(&self, entry: &LedgerEntry) -> Ticket<()> {
        let entry = entry.clone();
        self.write(move |tx| append(tx, &entry).map(|_| ()))
    }

    /// Lets `decide` look at the sums and books what it returns, under one lock across all processes. Answers with the
    /// entries. `decide` must be pure: after a rollback it is asked again.
    pub fn transact_ledger<F>(&self, run: &RunName, mut decide: F) -> Ticket<Vec<LedgerEntry>>
    where
        F: FnMut(LedgerTotals) -> Vec<LedgerEntry> + Send + 'static,
    {
        let run = run.clone();
        self.write(move |tx| {
            let entries = decide(totals(tx, &run)?);
            for entry in &entries {
                append(tx, entry)?;
            }
            Ok(entries)
        })
    }

    /// Returns the sums of a run.
    pub fn ledger_totals(&self, run: &RunName) -> Ticket<LedgerTotals> {
        let run = run.clone();
        self.read(move |tx| totals(tx, &run))
    }

    /// Returns the entries of a run in the order in which they were booked.
    pub fn ledger(&self, run: &RunName) -> Ticket<Vec<LedgerEntry>> {
        let run = run.clone();
        self.read(move |tx| entries(tx, &run))
    }

    /// Returns what attempts at cells with this model and task have cost, over all runs: the history for estimates. Of each
    /// cell it is the last attempt, where it ended by the agent's doing and held a session; another one tells nothing of
    /// what an agent spends. With it goes what its judge cost.
    pub fn cost_history(&self, model: &str, task: &str) -> Ticket<Vec<Micros>> {
        let (model, task) = (model.to_owned(), task.to_owned());
        self.read(move |tx| {
            let mut statement = tx.prepare_cached(
                "SELECT a.total_cost_micros + (SELECT coalesce(sum(l.amount_micros), 0) FROM ledger AS l
                   WHERE l.run_name = r.run_name AND l.cell_id = r.cell_id AND l.attempt = r.attempt
                     AND l.kind = 'spend' AND l.reference LIKE 'judge%')
                 FROM run_results AS r
                 JOIN attempts AS a ON a.run_name = r.run_name AND a.cell_id = r.cell_id AND a.attempt = r.attempt
                 WHERE r.model = ?1 AND r.task_id = ?2 AND a.total_cost_micros IS NOT NULL AND r.num_sessions > 0
                   AND r.terminal_state IN ('completed', 'failed', 'timeout')
                 ORDER BY r.timestamp",
            )?;
            let costs = statement.query_map([&model, &task], |row| row.get(0).map(Micros::new))?;
            Ok(costs.collect::<Result<_, _>>()?)
        })
    }
}

pub(super) fn entries(tx: &Connection, run: &RunName) -> Result<Vec<LedgerEntry>, Fault> {
    let mut statement = tx.prepare_cached("SELECT * FROM ledger WHERE run_name = ?1 ORDER BY id")?;
    let mut rows = statement.query([run.as_str()])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let row = Columns::of(row);
        found.push(LedgerEntry {
            attempt: AttemptId { run: row.run()?, cell: row.cell()?, number: row.small("attempt")? },
            kind: row.named("kind", LedgerKind::parse)?,
            reference: row.text("reference")?,
            amount: row.money("amount_micros")?,
            billable: row.money("billable_micros")?,
            at: row.time("at")?,
            note: row.known_text("note")?,
        });
    }
    Ok(found)
}

fn reserve(tx: &Connection, request: &Reservation) -> Result<Admission, Fault> {
    let id = &request.attempt;
    if request.exempt || reserves::held(tx, id)? > Micros::ZERO || has_begun(tx, id)? {
        return Ok(Admission::Admitted);
    }
    if let Some(cap) = request.cap {
        let remaining = totals(tx, &id.run)?.remaining(cap);
        if budget::admit(Some(remaining), request.estimate, false) != budget::Admission::Run {
            return Ok(Admission::Refused { remaining, estimate: request.estimate });
        }
    }
    append(
        tx,
        &LedgerEntry {
            attempt: id.clone(),
            kind: LedgerKind::Reserve,
            // A host that could not claim the cell has given its reservation back; the next one makes its own.
            reference: unused(tx, id, LedgerKind::Reserve, "cell")?,
            amount: Some(request.estimate),
            billable: Some(request.estimate),
            at: request.at,
            note: None,
        },
    )?;
    Ok(Admission::Admitted)
}

fn has_begun(tx: &Connection, id: &AttemptId) -> Result<bool, Fault> {
    Ok(tx
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM attempts WHERE run_name = ?1 AND cell_id = ?2 AND attempt = ?3)")?
        .query_row(params![id.run.as_str(), id.cell.as_str(), id.number], |row| row.get(0))?)
}

/// Tells whether a spend is booked under a reference.
pub(super) fn has_spend(tx: &Connection, id: &AttemptId, reference: &str) -> Result<bool, Fault> {
    Ok(tx
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM ledger
             WHERE run_name = ?1 AND cell_id = ?2 AND attempt = ?3 AND kind = 'spend' AND reference = ?4)",
        )?
        .query_row(params![id.run.as_str(), id.cell.as_str(), id.number, reference], |row| row.get(0))?)
}

/// Returns a reference that no entry of this kind has: the given one, or one with a number behind it.
pub(super) fn unused(tx: &Connection, id: &AttemptId, kind: LedgerKind, reference: &str) -> Result<String, Fault> {
    let mut taken = tx.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM ledger
         WHERE run_name = ?1 AND cell_id = ?2 AND attempt = ?3 AND kind = ?4 AND reference = ?5)",
    )?;
    let mut found = reference.to_owned();
    let mut number = 1;
    while taken
        .query_row(params![id.run.as_str(), id.cell.as_str(), id.number, kind.as_str(), found], |row| row.get(0))?
    {
        number += 1;
        found = format!("{reference} {number}");
    }
    Ok(found)
}

/// Books an entry; tells whether that changed anything.
pub(super) fn append(tx: &Connection, entry: &LedgerEntry) -> Result<bool, Fault> {
    let id = &entry.attempt;
    let changed = tx
        .prepare_cached(
            "INSERT INTO ledger (run_name, cell_id, attempt, kind, reference, amount_micros, billable_micros, at, note)
             VALUES (:run, :cell, :attempt, :kind, :reference, :amount, :billable, :at, :note)
             ON CONFLICT (run_name, cell_id, attempt, kind, reference) DO UPDATE SET
               amount_micros = excluded.amount_micros, billable_micros = excluded.billable_micros
             WHERE amount_micros IS NULL AND excluded.amount_micros IS NOT NULL",
        )?
        .execute(named_params! {
            ":run": id.run.as_str(),
            ":cell": id.cell.as_str(),
            ":attempt": id.number,
            ":kind": entry.kind.as_str(),
            ":reference": entry.reference,
            ":amount": money(entry.amount),
            ":billable": money(entry.billable),
            ":at": time(entry.at),
            ":note": entry.note,
        })?;
    Ok(changed > 0)
}

/// What a session has cost, for the ledger.
pub(super) struct SessionCost {
    pub(super) index: u32,
    pub(super) cost: Option<Micros>,
    /// The part of an unknown cost that is known.
    pub(super) at_least: Option<Micros>,
    pub(super) billable: Option<Micros>,
    pub(super) at: Timestamp,
}

/// What the entry is for that stands beside a known part of a cost: the rest, which nobody knows.
pub(super) fn open_rest(reference: &str) -> String {
    format!("{reference}, open")
}

/// Books a spend: a cost that is known, or the part of it that is and an unknown amount beside that. Tells whether that
/// changed anything.
pub(super) fn append_spend(tx: &Connection, entry: &LedgerEntry, at_least: Option<Micros>) -> Result<bool, Fault> {
    let Some(known) = at_least.filter(|known| entry.amount.is_none() && *known > Micros::ZERO) else {
        return append(tx, entry);
    };
    let exempt = entry.billable.filter(|billable| *billable == Micros::ZERO);
    append(tx, &LedgerEntry { reference: open_rest(&entry.reference), billable: exempt, ..entry.clone() })?;
    append(tx, &LedgerEntry { amount: Some(known), billable: exempt.or(Some(known)), ..entry.clone() })
}

/// Books a session's cost once, and lowers the attempt's reservation by it.
pub(super) fn spend(tx: &Connection, id: &AttemptId, session: &SessionCost) -> Result<(), Fault> {
    let entry = |kind, amount, billable| LedgerEntry {
        attempt: id.clone(),
        kind,
        reference: format!("s{}", session.index),
        amount,
        billable,
        at: session.at,
        note: None,
    };
    if !append_spend(tx, &entry(LedgerKind::Spend, session.cost, session.billable), session.at_least)? {
        return Ok(());
    }
    let billable = session.billable.or(session.at_least).unwrap_or(Micros::ZERO);
    let freed = billable.min(reserves::held(tx, id)?);
    if freed > Micros::ZERO {
        append(tx, &entry(LedgerKind::Release, Some(-freed), Some(-freed)))?;
    }
    reserves::settle_rest(tx, id)
}

/// The sums of a run, which triggers keep; reading them costs the same for a run of any size.
pub(super) fn totals(tx: &Connection, run: &RunName) -> Result<LedgerTotals, Fault> {
    let mut statement = tx.prepare_cached("SELECT * FROM ledger_sums WHERE run_name = ?1")?;
    let mut rows = statement.query([run.as_str()])?;
    let Some(row) = rows.next()? else { return Ok(LedgerTotals::default()) };
    let row = Columns::of(row);
    let sum = |column| -> Result<Micros, Fault> { Ok(row.money(column)?.unwrap_or(Micros::ZERO)) };
    let (assumed, stand_ins) = assumed(tx, run)?;
    Ok(LedgerTotals {
        billable_spent: sum("billable_micros")? - assumed,
        assumed,
        reserved: sum("reserved_micros")?,
        total: sum("total_micros")?,
        unknown: usize::try_from(row.number("unknown")?.saturating_sub(stand_ins)).unwrap_or(usize::MAX),
    })
}

/// What counts against the cap although nobody knows it, and how many of the entries only stand for others; an index holds
/// just these entries.
fn assumed(tx: &Connection, run: &RunName) -> Result<(Micros, u64), Fault> {
    let (sum, stand_ins): (i64, i64) = tx
        .prepare_cached(
            "SELECT coalesce(sum(billable_micros), 0), coalesce(sum(reference LIKE ?2 OR reference LIKE ?3), 0)
             FROM ledger WHERE run_name = ?1 AND amount_micros IS NULL",
        )?
        .query_row(params![run.as_str(), reserves::UNKNOWN_REST, format!("{}%", settling::RELEASED)], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    Ok((Micros::new(sum), u64::try_from(stand_ins).unwrap_or(0)))
}
