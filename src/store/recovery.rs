//! Records on disk that the database lacks: a crash between the two, or a database that was lost.

use std::fs;
use std::path::{Path, PathBuf};

use super::error::{Fault, StoreError};
use super::layout::{DIFF_FILE, Layout, RECORD_FILE};
use super::record_file::read_record;
use super::results::{self, ResultExtra};
use super::worker::Ticket;
use super::{Store, attempts};
use crate::domain::{AttemptId, RunName};

/// What a recovery did.
#[derive(Debug, Default)]
pub struct Recovered {
    /// The attempts whose records were imported.
    pub imported: Vec<AttemptId>,
    /// Files that could not be used; they were left as they are.
    pub refused: Vec<StoreError>,
}

impl Store {
    /// Imports the records of a run that lie on disk while their attempts have none in the database. Idempotent.
    ///
    /// Looks only at attempts that began by the database, so it is quick for a large run. Call it at the start of a
    /// run, before [`Store::orphaned_attempts`].
    pub fn recover(&self, layout: &Layout, run: &RunName) -> Ticket<Recovered> {
        let (layout, run) = (layout.clone(), run.clone());
        self.write(move |tx| {
            let open = attempts::without_record(tx, &run)?;
            let files = open.iter().map(|id| layout.record_path(id)).filter(|path| path.exists());
            import(tx, &layout, files)
        })
    }

    /// Imports every record below `layout` that the database lacks: rebuilds it from nothing, if need be. Idempotent.
    pub fn rebuild(&self, layout: &Layout) -> Ticket<Recovered> {
        let layout = layout.clone();
        self.write(move |tx| import(tx, &layout, record_files(&layout.runs())?.into_iter()))
    }
}

fn import(
    tx: &rusqlite::Connection,
    layout: &Layout,
    files: impl Iterator<Item = PathBuf>,
) -> Result<Recovered, Fault> {
    let mut recovered = Recovered::default();
    for path in files {
        let record = match read_record(&path) {
            Ok(record) => record,
            Err(error) => {
                recovered.refused.push(error);
                continue;
            }
        };
        if layout.record_path(&record.attempt) != path {
            let message = format!("it is the record of {}, which belongs elsewhere", record.attempt);
            recovered.refused.push(StoreError::Record { path, message });
            continue;
        }
        if attempts::has_record(tx, &record.attempt)? {
            continue;
        }
        let extra = ResultExtra { diff: fs::read(path.with_file_name(DIFF_FILE)).ok(), ..ResultExtra::default() };
        results::finish(tx, None, &record, &extra)?;
        recovered.imported.push(record.attempt);
    }
    Ok(recovered)
}

/// Lists `<runs>/<run>/<cell>/<attempt>/run_record.json`, sorted.
pub(super) fn record_files(runs: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let mut folders = vec![runs.to_path_buf()];
    for _ in 0..3 {
        let mut below = Vec::new();
        for folder in folders {
            below.extend(subfolders(&folder)?);
        }
        folders = below;
    }
    let mut files: Vec<_> = folders.into_iter().map(|folder| folder.join(RECORD_FILE)).collect();
    files.retain(|file| file.is_file());
    files.sort();
    Ok(files)
}

fn subfolders(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let failed = |source| StoreError::File { action: "list", path: folder.to_path_buf(), source };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(failed(source)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        // Symlinks are not followed: an agent's workspace is not far from here.
        if entry.file_type().map_err(failed)?.is_dir() {
            found.push(entry.path());
        }
    }
    Ok(found)
}
