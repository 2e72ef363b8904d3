//! Captured calls: what the gateway saw of each session, and what of it is on the ledger.

use std::io::{Read, Write};
use std::time::Duration;

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, named_params, params};

use super::Store;
use super::blob::MAX_BLOB;
use super::error::Fault;
use super::ledger::{self, LedgerEntry, LedgerKind};
use super::owner::Owner;
use super::row::{Columns, count, money, time, to_json, tokens, unknown};
use super::worker::Ticket;
use crate::domain::exchange::{Attribution, Exchange, ExchangeEnd, Trace, UsageSource};
use crate::domain::{AttemptId, CellId, Micros, ModelRole, RunName, Usage};

/// A request to a provider as it is on record.
#[derive(Debug, Clone, PartialEq)]
pub struct CapturedCall {
    /// What is known of it. Under way, its end is [`ExchangeEnd::Lost`]: what is left if nothing more is heard of it.
    pub exchange: Exchange,
    /// Whether its end is not known yet.
    pub under_way: bool,
    /// The entry of the ledger that its cost is part of.
    pub booked_as: Option<String>,
}

/// What was asked and answered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CapturedBodies {
    /// The request's body.
    pub request: Vec<u8>,
    /// The answer's body.
    pub answer: Vec<u8>,
    /// Whether one of them was cut.
    pub cut: bool,
}

/// Whose figures count for a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionMetering {
    /// Its cell.
    pub cell: CellId,
    /// Its attempt.
    pub attempt: u32,
    /// Who counted; unknown in older records.
    pub source: Option<UsageSource>,
    /// Where the harness's figures differ from those of the gateway.
    pub discrepancies: Vec<String>,
}

/// Sums over captured calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallSums {
    /// How many there are, the refused ones included.
    pub calls: u32,
    /// Those whose end nobody knows: under way, or lost with their host.
    pub open: u32,
    /// Their tokens; a class that one of them does not tell is unknown.
    pub usage: Usage,
    /// Their cost; unknown where that of one is.
    pub cost: Option<Micros>,
    /// The cost of those whose cost is known: a lower bound.
    pub known_cost: Micros,
}

impl CallSums {
    /// Nothing was seen.
    pub const NONE: Self =
        Self { calls: 0, open: 0, usage: Usage::ZERO, cost: Some(Micros::ZERO), known_cost: Micros::ZERO };
}

impl Store {
    /// Stores a request that is about to be sent. What nobody knows yet of it is NULL.
    pub fn begin_call(&self, exchange: &Exchange) -> Ticket<()> {
        let (host, exchange) = (host_of(self.acting.as_deref()), exchange.clone());
        self.write_light(move |tx| put(tx, &host, &exchange, None))
    }

    /// Stores how a request has ended, whether or not it was stored before.
    pub fn end_call(&self, exchange: &Exchange, bodies: Option<CapturedBodies>) -> Ticket<()> {
        let (host, exchange) = (host_of(self.acting.as_deref()), exchange.clone());
        // Compressed by the caller: the writer's thread is everybody's.
        let bodies = bodies.map(|bodies| (bodies.cut, packed(&bodies.request), packed(&bodies.answer)));
        self.write(move |tx| {
            put(tx, &host, &exchange, Some(exchange.end))?;
            if let Some((cut, request, answer)) = &bodies {
                tx.prepare_cached(
                    "INSERT INTO captured_bodies (id, cut, request, answer) VALUES (?1, ?2, ?3, ?4)
                     ON CONFLICT (id) DO UPDATE SET cut = excluded.cut, request = excluded.request,
                       answer = excluded.answer",
                )?
                .execute(params![exchange.id, cut, request, answer])?;
            }
            Ok(())
        })
    }

    /// Returns the calls of a run, or of one of its cells, in the order in which they came.
    pub fn calls(&self, run: &RunName, cell: Option<&CellId>) -> Ticket<Vec<CapturedCall>> {
        let (run, cell) = (run.clone(), cell.cloned());
        self.read(move |tx| {
            let mut statement = tx.prepare_cached(
                "SELECT * FROM captured_calls WHERE run_name = ?1 AND (?2 IS NULL OR cell_id = ?2)
                 ORDER BY started_at, session, number",
            )?;
            let mut rows = statement.query(params![run.as_str(), cell.as_ref().map(CellId::as_str)])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                found.push(call(row)?);
            }
            Ok(found)
        })
    }

    /// Returns what was asked and answered in a call, where that was kept.
    pub fn call_bodies(&self, id: &str) -> Ticket<Option<CapturedBodies>> {
        let id = id.to_owned();
        self.read(move |tx| {
            let row = tx
                .prepare_cached("SELECT cut, request, answer FROM captured_bodies WHERE id = ?1")?
                .query_row([&id], |row| Ok((row.get(0)?, row.get::<_, Vec<u8>>(1)?, row.get::<_, Vec<u8>>(2)?)))
                .optional()?;
            let Some((cut, request, answer)) = row else { return Ok(None) };
            Ok(Some(CapturedBodies { request: unpacked(&request)?, answer: unpacked(&answer)?, cut }))
        })
    }

    /// Returns, for each session of a run, whose figures count and where the harness's differ.
    pub fn metering(&self, run: &RunName) -> Ticket<Vec<SessionMetering>> {
        let run = run.clone();
        self.read(move |tx| {
            let mut statement = tx.prepare_cached(
                "SELECT cell_id, attempt, json_extract(record_json, '$.usage_source') AS source,
                   coalesce(json_extract(record_json, '$.discrepancies'), '[]') AS discrepancies
                 FROM sessions WHERE run_name = ?1 ORDER BY cell_id, attempt, session",
            )?;
            let mut rows = statement.query([run.as_str()])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let row = Columns::of(row);
                found.push(SessionMetering {
                    cell: row.cell()?,
                    attempt: row.small("attempt")?,
                    source: row.known_named("source", UsageSource::parse)?,
                    discrepancies: row.json("discrepancies")?,
                });
            }
            Ok(found)
        })
    }

    /// Takes over what hosts before this one have seen of a session, as if this one had: for a session that had finished
    /// when its host died. Returns the sums.
    pub fn adopt_calls(&self, attempt: &AttemptId, session: u32) -> Ticket<CallSums> {
        let (host, attempt) = (host_of(self.acting.as_deref()), attempt.clone());
        self.write(move |tx| {
            let whose = params![attempt.run.as_str(), attempt.cell.as_str(), attempt.number, session, host];
            tx.prepare_cached(
                "UPDATE captured_calls SET host = ?5, outcome = coalesce(outcome, 'lost')
                 WHERE run_name = ?1 AND cell_id = ?2 AND attempt = ?3 AND session = ?4 AND booked_as IS NULL",
            )?
            .execute(whose)?;
            let own =
                "run_name = ?1 AND cell_id = ?2 AND attempt = ?3 AND session = ?4 AND booked_as IS NULL AND host = ?5";
            sums_of(tx, own, whose)
        })
    }

    /// Books the start of a session that was cut off when its host died, under the entry's reference: what the gateway
    /// saw of it, and an unknown amount where that may not be all. The entry's own amount is not looked at. Doing it
    /// again changes nothing.
    pub fn book_cut_off(&self, entry: &LedgerEntry, session: u32, exempt: bool) -> Ticket<CallSums> {
        let (host, entry) = (host_of(self.acting.as_deref()), entry.clone());
        self.write(move |tx| {
            if !ledger::has_spend(tx, &entry.attempt, &entry.reference)? {
                book(tx, (&host, false), (&entry.attempt, Some(session)), &entry.reference)?;
            }
            let sums = booked(tx, &entry.attempt, &entry.reference)?;
            book_sums(tx, &entry, &sums, exempt)?;
            Ok(sums)
        })
    }
}

/// Books what is known, and an unknown amount beside it where that may not be all.
pub(super) fn book_sums(tx: &Connection, entry: &LedgerEntry, sums: &CallSums, exempt: bool) -> Result<(), Fault> {
    let nothing = exempt.then_some(Micros::ZERO);
    let whole = LedgerEntry { amount: None, billable: nothing, ..entry.clone() };
    if sums.calls == 0 {
        return ledger::append(tx, &whole).map(|_| ());
    }
    let seen = Some(sums.known_cost);
    let note = format!("{} calls that the gateway saw of it", sums.calls);
    let known = LedgerEntry { amount: seen, billable: nothing.or(seen), note: Some(note), ..entry.clone() };
    ledger::append(tx, &known)?;
    if sums.open > 0 || sums.cost.is_none() {
        let reference = ledger::open_rest(&entry.reference);
        ledger::append(tx, &LedgerEntry { reference, ..whole })?;
    }
    Ok(())
}

impl CallSums {
    /// Tells whether these calls are all that a session can have spent through the gateway, and their cost is known.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.calls > 0 && self.open == 0 && self.cost.is_some()
    }
}

/// A name for the process that a handle acts for; empty where it acts for none.
pub(super) fn host_of(acting: Option<&Owner>) -> String {
    let owner = acting.and_then(|owner| to_json("host", owner).ok());
    owner.map(|owner| blake3::hash(owner.as_bytes()).to_hex()[..16].to_owned()).unwrap_or_default()
}

/// Notes that the calls of a session are part of an entry of the ledger. `own` are those of this host, else those of
/// hosts before it, which are lost where they had not ended.
fn book(
    tx: &Connection,
    (host, own): (&str, bool),
    (attempt, session): (&AttemptId, Option<u32>),
    reference: &str,
) -> Result<(), Fault> {
    book_of(tx, (host, own), (attempt, session, None), reference)
}

/// Notes that what the gateway saw of a dead host's attempt, and no entry holds, is part of an entry of the ledger: all of
/// it, or what these roles did. An empty one stands for models that the script named.
pub(super) fn book_left(
    tx: &Connection,
    attempt: &AttemptId,
    roles: Option<&[&str]>,
    reference: &str,
) -> Result<(), Fault> {
    let roles = roles.map(|roles| to_json("role", &roles)).transpose()?;
    book_of(tx, ("", false), (attempt, None, roles), reference)
}

fn book_of(
    tx: &Connection,
    (host, own): (&str, bool),
    (attempt, session, roles): (&AttemptId, Option<u32>, Option<String>),
    reference: &str,
) -> Result<(), Fault> {
    tx.prepare_cached(
        "UPDATE captured_calls SET booked_as = :reference,
           outcome = iif(:own, outcome, coalesce(outcome, 'lost'))
         WHERE run_name = :run AND cell_id = :cell AND attempt = :attempt AND booked_as IS NULL
           AND (:session IS NULL OR session = :session) AND (host = :host) = :own
           AND (:roles IS NULL OR coalesce(role, '') IN (SELECT value FROM json_each(:roles)))",
    )?
    .execute(named_params! {
        ":reference": reference,
        ":roles": roles,
        ":own": own,
        ":run": attempt.run.as_str(),
        ":cell": attempt.cell.as_str(),
        ":attempt": attempt.number,
        ":session": session,
        ":host": host,
    })?;
    Ok(())
}

/// Returns the sums of the calls that an entry of the ledger holds.
pub(super) fn booked(tx: &Connection, attempt: &AttemptId, reference: &str) -> Result<CallSums, Fault> {
    sums_of(
        tx,
        "run_name = ?1 AND cell_id = ?2 AND attempt = ?3 AND booked_as = ?4",
        params![attempt.run.as_str(), attempt.cell.as_str(), attempt.number, reference],
    )
}

/// Books the calls of a session with the session. Those that another host has booked already, believing this one dead,
/// must not count twice: an entry takes them out again, off the budget only what had been put on it.
pub(super) fn book_session(
    tx: &Connection,
    acting: Option<&Owner>,
    (id, session): (&AttemptId, u32),
    (reference, at): (&str, Timestamp),
) -> Result<(), Fault> {
    let host = host_of(acting);
    let elsewhere =
        "run_name = ?1 AND cell_id = ?2 AND attempt = ?3 AND session = ?4 AND host = ?5 AND booked_as <> ?6";
    let whose = || (id.run.as_str(), id.cell.as_str(), id.number, session, &host, reference);
    let found = sums_of(tx, elsewhere, whose())?;
    let off_budget = format!(
        "{elsewhere} AND booked_as IN (SELECT reference FROM ledger
           WHERE run_name = ?1 AND cell_id = ?2 AND attempt = ?3 AND kind = 'spend' AND billable_micros = 0)"
    );
    let exempt = sums_of(tx, &off_budget, whose())?;
    book(tx, (&host, true), (id, Some(session)), reference)?;
    if found.known_cost == Micros::ZERO {
        return Ok(());
    }
    let entry = LedgerEntry {
        attempt: id.clone(),
        kind: LedgerKind::Spend,
        reference: format!("{reference}, booked before"),
        amount: Some(-found.known_cost),
        billable: Some(exempt.known_cost - found.known_cost),
        at,
        note: Some("calls that another host has booked, believing this one dead".to_owned()),
    };
    ledger::append(tx, &entry).map(|_| ())
}

pub(super) fn sums_of(tx: &Connection, which: &str, values: impl rusqlite::Params) -> Result<CallSums, Fault> {
    let mut statement = tx.prepare_cached(&format!(
        "SELECT input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens, cost_micros,
           outcome IS NULL OR outcome = 'lost' AS open FROM captured_calls WHERE {which}"
    ))?;
    let mut rows = statement.query(values)?;
    let mut sums = CallSums::NONE;
    while let Some(row) = rows.next()? {
        let row = Columns::of(row);
        sums.calls += 1;
        sums.usage = sums.usage.plus(row.usage()?);
        let cost = row.money("cost_micros")?;
        sums.cost = sums.cost.zip(cost).map(|(sum, cost)| sum + cost);
        sums.known_cost += cost.unwrap_or(Micros::ZERO);
        sums.open += u32::from(row.flag("open")?.unwrap_or(true));
    }
    Ok(sums)
}

/// Stores an exchange; `end` is `None` for one that is under way.
fn put(tx: &Connection, host: &str, exchange: &Exchange, end: Option<ExchangeEnd>) -> Result<(), Fault> {
    let whose = &exchange.attribution;
    // What is under way has told nothing yet.
    let known = end.is_some();
    let [input, output, cache_read, cache_write, reasoning] =
        tokens(&if known { exchange.usage } else { Usage::UNKNOWN });
    tx.prepare_cached(
        "INSERT INTO captured_calls (id, run_name, cell_id, attempt, session, number, host, phase, role, trace, provider,
           api, model_asked, model_served, status, outcome, input_tokens, output_tokens, cache_read_tokens,
           cache_write_tokens, reasoning_tokens, cost_micros, retry, started_at, first_byte_us, duration_us,
           request_bytes, answer_bytes, message)
         VALUES (:id, :run, :cell, :attempt, :session, :number, :host, :phase, :role, :trace, :provider, :api, :asked,
           :served, :status, :outcome, :input, :output, :cache_read, :cache_write, :reasoning, :cost, :retry, :at,
           :first_byte, :duration, :request_bytes, :answer_bytes, :message)
         ON CONFLICT (id) DO UPDATE SET
           api = excluded.api, model_asked = excluded.model_asked, model_served = excluded.model_served,
           status = excluded.status, outcome = excluded.outcome, input_tokens = excluded.input_tokens,
           output_tokens = excluded.output_tokens, cache_read_tokens = excluded.cache_read_tokens,
           cache_write_tokens = excluded.cache_write_tokens, reasoning_tokens = excluded.reasoning_tokens,
           cost_micros = excluded.cost_micros, first_byte_us = excluded.first_byte_us,
           duration_us = excluded.duration_us, request_bytes = excluded.request_bytes,
           answer_bytes = excluded.answer_bytes, message = excluded.message
         WHERE outcome IS NULL",
    )?
    .execute(named_params! {
        ":id": exchange.id,
        ":run": whose.run.as_str(),
        ":cell": whose.cell.as_ref().map(CellId::as_str),
        ":attempt": whose.attempt,
        ":session": whose.session,
        ":number": exchange.number,
        ":host": host,
        ":phase": whose.phase,
        ":role": whose.role.map(ModelRole::as_str),
        ":trace": whose.trace.as_str(),
        ":provider": exchange.provider,
        ":api": exchange.api,
        ":asked": exchange.model_asked,
        ":served": exchange.model_served,
        ":status": exchange.status,
        ":outcome": end.map(ExchangeEnd::as_str),
        ":input": input,
        ":output": output,
        ":cache_read": cache_read,
        ":cache_write": cache_write,
        ":reasoning": reasoning,
        ":cost": money(exchange.cost.filter(|_| known)),
        ":retry": exchange.retry,
        ":at": time(exchange.started_at),
        ":first_byte": exchange.first_byte.map(micros),
        ":duration": known.then(|| micros(exchange.duration)),
        ":request_bytes": known.then(|| count(exchange.request_bytes)),
        ":answer_bytes": known.then(|| count(exchange.answer_bytes)),
        ":message": exchange.message,
    })?;
    Ok(())
}

fn call(row: &Row<'_>) -> Result<CapturedCall, Fault> {
    let row = Columns::of(row);
    let end = row.known_named("outcome", ExchangeEnd::parse)?;
    let exchange = Exchange {
        id: row.text("id")?,
        attribution: Attribution {
            run: row.run()?,
            cell: row.known_text("cell_id")?.map(CellId::from_stored),
            attempt: row.small("attempt")?,
            session: row.small("session")?,
            phase: row.known_text("phase")?,
            role: row.known_named("role", ModelRole::parse)?,
            trace: row.named("trace", Trace::parse)?,
        },
        number: row.small("number")?,
        provider: row.text("provider")?,
        api: row.text("api")?,
        model_asked: row.known_text("model_asked")?,
        model_served: row.known_text("model_served")?,
        status: row.known_number("status")?.and_then(|status| u16::try_from(status).ok()),
        end: end.unwrap_or(ExchangeEnd::Lost),
        usage: row.usage()?,
        cost: row.money("cost_micros")?,
        retry: row.small("retry")?,
        started_at: row.time("started_at")?,
        first_byte: row.known_number("first_byte_us")?.map(Duration::from_micros),
        duration: Duration::from_micros(row.known_number("duration_us")?.unwrap_or(0)),
        request_bytes: row.known_number("request_bytes")?.unwrap_or(0),
        answer_bytes: row.known_number("answer_bytes")?.unwrap_or(0),
        message: row.known_text("message")?,
    };
    Ok(CapturedCall { exchange, under_way: end.is_none(), booked_as: row.known_text("booked_as")? })
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// Compresses; writing to memory does not fail.
fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

fn unpacked(bytes: &[u8]) -> Result<Vec<u8>, Fault> {
    let mut found = Vec::new();
    let read = ZlibDecoder::new(bytes).take(MAX_BLOB as u64).read_to_end(&mut found);
    read.map_err(|error| unknown("request", &error.to_string()))?;
    Ok(found)
}
