//! What is left to do: a pure decision over the plan's cells and what the store has of them.

use std::collections::HashMap;

use crate::domain::cell::Cell;
use crate::domain::{CellId, CellKey, KeyPart, Terminal};

/// What the store knows of a cell's last attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownCell {
    /// What the cell meant then.
    pub key: CellKey,
    /// How its last attempt ended.
    pub terminal: Terminal,
}

/// Cells of a plan, sorted by what is to happen to them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Worklist {
    /// Indices of cells to run, in the plan's order.
    pub to_run: Vec<usize>,
    /// How many are decided already.
    pub done: usize,
    /// Cells that were run under this name with another meaning.
    pub changed: Vec<Changed>,
}

/// A cell that was run under its name with another meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Which.
    pub cell: CellId,
    /// What of its meaning is another one now; empty where that cannot be told.
    pub parts: Vec<KeyPart>,
}

impl Changed {
    /// Compares what a cell meant with what it means now.
    #[must_use]
    pub fn of(cell: &CellId, then: &CellKey, now: &CellKey) -> Option<Self> {
        (then != now).then(|| Self { cell: cell.clone(), parts: then.differences(now) })
    }
}

/// Says in one line what has changed, and in how many cells.
#[must_use]
pub fn describe_changes(changed: &[Changed]) -> String {
    let counts = KeyPart::ALL.into_iter().filter_map(|part| {
        let count = changed.iter().filter(|changed| changed.parts.contains(&part)).count();
        (count > 0).then(|| format!("{part} ({count})"))
    });
    let untold = changed.iter().filter(|changed| changed.parts.is_empty()).count();
    let untold = (untold > 0).then(|| format!("something that an earlier version did not note ({untold})"));
    counts.chain(untold).collect::<Vec<_>>().join(", ")
}

/// Decides for every cell. `key` is asked only for cells that the store knows.
///
/// | stored end | same key | decision |
/// |---|---|---|
/// | none | – | run |
/// | `completed`, `failed`, `timeout` | yes | leave |
/// | `completed`, `failed`, `timeout` | no | changed: the caller refuses |
/// | any other | – | run again |
#[must_use]
#[expect(clippy::implicit_hasher, reason = "the store makes the map")]
pub fn decide(cells: &[Cell], known: &HashMap<CellId, KnownCell>, key: impl Fn(&Cell) -> CellKey) -> Worklist {
    let mut list = Worklist::default();
    for (index, cell) in cells.iter().enumerate() {
        match known.get(&cell.id) {
            Some(stored) if stored.terminal.is_decided() => match Changed::of(&cell.id, &stored.key, &key(cell)) {
                None => list.done += 1,
                Some(changed) => list.changed.push(changed),
            },
            Some(_) | None => list.to_run.push(index),
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(id: &str) -> Cell {
        Cell {
            id: CellId::from_stored(id),
            harness: 0,
            model: 0,
            review_model: None,
            task: 0,
            orchestrator: 0,
            repeat: 1,
        }
    }

    #[test]
    fn every_stored_end_has_its_decision() {
        for terminal in Terminal::ALL {
            for same in [true, false] {
                let key = CellKey::new(if same { "now" } else { "then" });
                let known = HashMap::from([(CellId::from_stored("a"), KnownCell { key, terminal })]);
                let list = decide(&[cell("a"), cell("b")], &known, |_| CellKey::new("now"));
                let expected = match (terminal.is_decided(), same) {
                    (true, true) => Worklist { to_run: vec![1], done: 1, changed: vec![] },
                    (true, false) => {
                        let changed = Changed { cell: CellId::from_stored("a"), parts: Vec::new() };
                        Worklist { to_run: vec![1], done: 0, changed: vec![changed] }
                    }
                    (false, _) => Worklist { to_run: vec![0, 1], done: 0, changed: vec![] },
                };
                assert_eq!(list, expected, "{terminal} with the same key: {same}");
            }
        }
    }

    #[test]
    fn a_change_is_named_part_by_part() {
        let key = |prompt: &str, script: &str| CellKey::new(format!("v2 h1 m1 p{prompt} o{script} a1"));
        let of = |id: &str, now: CellKey| Changed::of(&CellId::from_stored(id), &key("1", "1"), &now);
        assert_eq!(of("same", key("1", "1")), None);
        let changed: Vec<_> = [of("a", key("2", "1")), of("b", key("2", "2")), of("c", CellKey::new("an older key"))]
            .into_iter()
            .flatten()
            .collect();
        assert_eq!(changed[1].parts, [KeyPart::Prompt, KeyPart::Orchestrator]);
        assert_eq!(
            describe_changes(&changed),
            "the task's prompt (2), the orchestrator's script (1), something that an earlier version did not note (1)"
        );
    }
}
