//! Space on disk that nothing needs any more: logs and diffs of attempts that a later one has superseded.

use std::fs;
use std::io;
use std::path::Path;

use jiff::Timestamp;
use rusqlite::params;

use super::layout::{Layout, RECORD_FILE};
use super::row::{Columns, time};
use super::worker::Ticket;
use super::{Store, StoreError, attempts};
use crate::domain::AttemptId;

/// Files of one superseded attempt that can go, or are gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Garbage {
    /// Whose.
    pub attempt: AttemptId,
    /// How much space they take.
    pub bytes: u64,
}

impl Store {
    /// Returns the attempts, of all runs, that ended before `before` while a later one has decided their cell.
    pub fn superseded(&self, before: Timestamp) -> Ticket<Vec<AttemptId>> {
        self.read(move |tx| {
            let mut statement = tx.prepare_cached(
                "SELECT a.run_name, a.cell_id, a.attempt FROM attempts AS a
                 JOIN run_results AS r ON r.run_name = a.run_name AND r.cell_id = a.cell_id
                 WHERE a.ended_at < ?1 AND a.attempt < r.attempt
                 ORDER BY a.run_name, a.cell_id, a.attempt",
            )?;
            let mut rows = statement.query(params![time(before)])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                found.push(attempts::attempt_id(&Columns::of(row))?);
            }
            Ok(found)
        })
    }

    /// Finds what superseded attempts keep on disk besides their records, and removes it if `remove` says so. Records
    /// stay: the database can be rebuilt from them, money included. Blocks.
    ///
    /// # Errors
    ///
    /// [`StoreError::File`] names what cannot be listed or removed; what came before it is gone.
    pub fn collect_garbage(
        &self,
        layout: &Layout,
        before: Timestamp,
        remove: bool,
    ) -> Result<Vec<Garbage>, StoreError> {
        let mut found = Vec::new();
        for attempt in self.superseded(before).wait()? {
            let folder = layout.attempt(&attempt);
            let failed = |source| StoreError::File { action: "clear", path: folder.clone(), source };
            let bytes = clear(&folder, remove).map_err(failed)?;
            if bytes > 0 {
                found.push(Garbage { attempt, bytes });
            }
        }
        Ok(found)
    }
}

/// Removes everything in an attempt's folder but its record; returns its size. Links are removed, never followed.
fn clear(folder: &Path, remove: bool) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in entries(folder)? {
        if entry.file_name() == RECORD_FILE {
            continue;
        }
        let path = entry.path();
        bytes += size(&path)?;
        if remove && entry.file_type()?.is_dir() {
            fs::remove_dir_all(&path)?;
        } else if remove {
            fs::remove_file(&path)?;
        }
    }
    Ok(bytes)
}

fn entries(folder: &Path) -> io::Result<Vec<fs::DirEntry>> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn size(path: &Path) -> io::Result<u64> {
    let metadata = fs::symlink_metadata(path)?;
    if !metadata.is_dir() {
        return Ok(metadata.len());
    }
    entries(path)?.iter().try_fold(0, |sum, entry| Ok(sum + size(&entry.path())?))
}
