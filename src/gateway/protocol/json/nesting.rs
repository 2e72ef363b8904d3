//! Where in a document: the objects and arrays around, and the keys that lead there.

use super::Key;

/// The deepest nesting that is followed; servers refuse less.
const DEEPEST: usize = 512;

/// The longest path that is told. What is looked for lies higher.
const LONGEST_PATH: usize = 8;

#[derive(Debug)]
pub(super) struct Nesting {
    depth: usize,
    /// A bit a level: an object, or else an array.
    objects: [u64; DEEPEST / 64],
    keys: [Key; LONGEST_PATH],
}

impl Nesting {
    pub(super) fn new() -> Self {
        Self { depth: 0, objects: [0; DEEPEST / 64], keys: [Key::Other; LONGEST_PATH] }
    }

    /// The path of the value at hand; `None` if it is too deep to be told.
    pub(super) fn path(&self) -> Option<&[Key]> {
        self.keys.get(..self.depth)
    }

    pub(super) fn is_outside(&self) -> bool {
        self.depth == 0
    }

    pub(super) fn in_object(&self) -> bool {
        self.depth.checked_sub(1).is_some_and(|level| self.objects[level / 64] >> (level % 64) & 1 == 1)
    }

    /// Goes into an object or an array; `false` if that is too deep.
    pub(super) fn enter(&mut self, object: bool) -> bool {
        let level = self.depth;
        if level == DEEPEST {
            return false;
        }
        let bit = 1 << (level % 64);
        if object {
            self.objects[level / 64] |= bit;
        } else {
            self.objects[level / 64] &= !bit;
        }
        self.depth += 1;
        self.set_key(if object { Key::Other } else { Key::Item });
        true
    }

    /// Leaves the innermost one; `false` outside all.
    pub(super) fn leave(&mut self) -> bool {
        let inside = self.depth > 0;
        self.depth = self.depth.saturating_sub(1);
        inside
    }

    /// Sets the key of the value to come in the innermost one.
    pub(super) fn set_key(&mut self, key: Key) {
        if let Some(slot) = self.depth.checked_sub(1).and_then(|level| self.keys.get_mut(level)) {
            *slot = key;
        }
    }
}
