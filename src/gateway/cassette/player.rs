//! Plays a tape: which of its answers a request gets.

use std::collections::HashMap;

use serde_json::Value;

use crate::domain::Attribution;

use super::Matching;
use super::normal;
use super::parted::Parted;
use super::tape::{Line, Part, RecordedAnswer, RecordedRequest};

/// A tape and how far it has been played.
#[derive(Debug)]
pub(super) struct Player {
    parts: HashMap<Part, Vec<Entry>>,
    matching: Matching,
}

#[derive(Debug)]
struct Entry {
    line: Line,
    played: bool,
}

impl Player {
    pub(super) fn new(lines: Vec<Line>, matching: Matching) -> Self {
        let mut parts = HashMap::<Part, Vec<Entry>>::new();
        for line in lines {
            parts.entry(line.part.clone()).or_default().push(Entry { line, played: false });
        }
        for entries in parts.values_mut() {
            // Lines stand in the order in which exchanges ended.
            entries.sort_by_key(|entry| entry.line.number);
        }
        Self { parts, matching }
    }

    /// Finds the part that a session plays: its own, or that of the last recorded attempt before.
    fn part(&self, whose: &Attribution) -> Option<Part> {
        Part::of(whose).and_before().find(|part| self.parts.contains_key(part))
    }

    /// Takes the answer to a request, given the request without what differs from run to run.
    pub(super) fn answer(
        &mut self,
        whose: &Attribution,
        request: &RecordedRequest,
        asked: &Value,
    ) -> Result<RecordedAnswer, Parted> {
        let Some(part) = self.part(whose) else { return Err(Parted::no_such_session(whose)) };
        let Some(entries) = self.parts.get_mut(&part) else { return Err(Parted::no_such_session(whose)) };
        let total = entries.len();
        let open = || entries.iter().enumerate().filter(|(_, entry)| !entry.played && entry.line.api == request.api);
        let equal = open().find(|(_, entry)| entry.line.request == *asked && same_place(&entry.line, request));
        let alike = || {
            let shape = normal::shape(asked);
            open().find(|(_, entry)| normal::shape(&entry.line.request) == shape)
        };
        let found = equal.or_else(|| if self.matching == Matching::Shape { alike() } else { None });
        match found.map(|(at, _)| at) {
            Some(at) => {
                entries[at].played = true;
                Ok(entries[at].line.answer())
            }
            // The one that is built alike tells most by its difference.
            None => Err(match alike().or_else(|| open().next()) {
                Some((_, entry)) => Parted::other_request(&entry.line, asked, total),
                None => Parted::no_more(&request.api, total),
            }),
        }
    }
}

/// Paths that differ in their query only ask for the same.
fn same_place(line: &Line, request: &RecordedRequest) -> bool {
    let place = |path: &str| path.split('?').next().map(str::to_owned);
    place(&line.path) == place(&request.path)
}
