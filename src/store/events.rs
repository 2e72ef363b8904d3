//! The event stream of each start of a run, for replay and for those who watch from another process.

use rusqlite::params;

use super::Store;
use super::row::{Columns, count, time, to_json};
use super::runs::RunHandle;
use super::worker::Ticket;

use crate::domain::{Event, RunName};

impl Store {
    /// Appends events of a start. One that is on record already stays as it is.
    pub fn add_events(&self, handle: &RunHandle, events: Vec<Event>) -> Ticket<()> {
        let handle = handle.clone();
        self.write(move |tx| {
            let mut insert = tx.prepare_cached(
                "INSERT INTO events (run_name, start, seq, at, kind, event_json) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                 ON CONFLICT (run_name, start, seq) DO NOTHING",
            )?;
            for event in &events {
                let json = to_json("event_json", event)?;
                insert.execute(params![
                    handle.run.as_str(),
                    handle.start,
                    count(event.seq),
                    time(event.at),
                    kind_of(event)?,
                    json
                ])?;
            }
            Ok(())
        })
    }

    /// Returns the events of all starts of a run, oldest first.
    pub fn events(&self, run: &RunName) -> Ticket<Vec<Event>> {
        self.events_from(run, 0, 0)
    }

    /// Returns the events from `seq` of `start` on, for those who follow a run: ask again from behind the last one.
    pub fn events_from(&self, run: &RunName, start: u32, seq: u64) -> Ticket<Vec<Event>> {
        let run = run.clone();
        self.read(move |tx| {
            let mut statement = tx.prepare_cached(
                "SELECT event_json FROM events WHERE run_name = ?1 AND (start, seq) >= (?2, ?3) ORDER BY start, seq",
            )?;
            let mut rows = statement.query(params![run.as_str(), start, count(seq)])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                found.push(Columns::of(row).json("event_json")?);
            }
            Ok(found)
        })
    }
}

/// The tag that the event's JSON carries.
fn kind_of(event: &Event) -> Result<String, super::error::Fault> {
    let value = serde_json::to_value(&event.kind).map_err(|error| super::row::unknown("kind", &error.to_string()))?;
    let tag = value.get("event").and_then(serde_json::Value::as_str);
    tag.map(str::to_owned).ok_or_else(|| super::row::unknown("kind", "an event without a tag"))
}
