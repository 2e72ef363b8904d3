//! What is left to do: a pure decision over the plan's cells and what the store has of them.

use std::collections::HashMap;

use crate::domain::cell::Cell;
use crate::domain::{CellId, CellKey, Terminal};

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
    /// Ids of cells that were run under this name with another meaning.
    pub changed: Vec<CellId>,
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
            Some(stored) if stored.terminal.is_decided() => {
                if stored.key == key(cell) {
                    list.done += 1;
                } else {
                    list.changed.push(cell.id.clone());
                }
            }
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
                    (true, false) => Worklist { to_run: vec![1], done: 0, changed: vec![CellId::from_stored("a")] },
                    (false, _) => Worklist { to_run: vec![0, 1], done: 0, changed: vec![] },
                };
                assert_eq!(list, expected, "{terminal} with the same key: {same}");
            }
        }
    }
}
