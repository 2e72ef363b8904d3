//! Which paths differ, and how.

use std::collections::{BTreeMap, HashMap};

use crate::workspace::snapshot::{FileEntry, FileKind, Snapshot};

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change<'a> {
    Added {
        path: &'a [u8],
        entry: FileEntry,
    },
    Deleted {
        path: &'a [u8],
        entry: FileEntry,
    },
    /// Other content, another executable bit, or both.
    Modified {
        path: &'a [u8],
        old: FileEntry,
        new: FileEntry,
    },
    /// The same content under another name.
    Renamed {
        from: &'a [u8],
        to: &'a [u8],
        old: FileEntry,
        new: FileEntry,
    },
}

impl Change<'_> {
    /// Order in a patch: by name; where a file becomes a link or back, the deletion comes first.
    fn order(&self) -> (&[u8], u8) {
        match self {
            Self::Deleted { path, .. } => (path, 0),
            Self::Added { path, .. } | Self::Modified { path, .. } => (path, 1),
            Self::Renamed { to, .. } => (to, 1),
        }
    }
}

/// Lists the differences in the order in which a patch shows them.
pub(super) fn between<'a>(base: &'a Snapshot, last: &'a Snapshot) -> Vec<Change<'a>> {
    let mut changes = Vec::new();
    let mut added: BTreeMap<&[u8], FileEntry> = BTreeMap::new();
    let mut deleted: BTreeMap<&[u8], FileEntry> = BTreeMap::new();
    for (path, old) in base.entries() {
        match last.get(path) {
            Some(new) if new == old => {}
            Some(new) if is_link(new) == is_link(old) => {
                changes.push(Change::Modified { path, old: *old, new: *new });
            }
            // A file that became a link is another file under the name, in git's eyes too; never a rename.
            Some(new) => {
                changes.push(Change::Deleted { path, entry: *old });
                changes.push(Change::Added { path, entry: *new });
            }
            None => {
                deleted.insert(path, *old);
            }
        }
    }
    added.extend(last.entries().filter(|(path, _)| base.get(path).is_none()).map(|(path, entry)| (path, *entry)));
    changes.extend(renames(&mut added, &mut deleted));
    changes.extend(deleted.into_iter().map(|(path, entry)| Change::Deleted { path, entry }));
    changes.extend(added.into_iter().map(|(path, entry)| Change::Added { path, entry }));
    changes.sort_by(|a, b| a.order().cmp(&b.order()));
    changes
}

/// Pairs deleted with added files of equal content and takes both out of the lists. Empty files say nothing.
///
/// Links are left alone: a rename names no mode, so git would not know that a link goes away and refuses files below it.
fn renames<'a>(
    added: &mut BTreeMap<&'a [u8], FileEntry>,
    deleted: &mut BTreeMap<&'a [u8], FileEntry>,
) -> Vec<Change<'a>> {
    let mut by_content: HashMap<[u8; 32], Vec<&'a [u8]>> = HashMap::new();
    for (path, entry) in deleted.iter().rev().filter(|(_, entry)| entry.size > 0 && !is_link(entry)) {
        by_content.entry(entry.hash).or_default().push(path);
    }
    let mut found = Vec::new();
    added.retain(|to, new| {
        let twins = by_content.get_mut(&new.hash).filter(|_| !is_link(new));
        let from = twins.and_then(Vec::pop);
        let Some((from, old)) = from.and_then(|from| Some((from, deleted.remove(from)?))) else { return true };
        found.push(Change::Renamed { from, to, old, new: *new });
        false
    });
    found
}

fn is_link(entry: &FileEntry) -> bool {
    entry.kind == FileKind::Symlink
}
