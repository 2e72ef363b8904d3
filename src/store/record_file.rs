//! `run_record.json`: written so that a reader finds the old file or the new one, and nothing between.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use rustix::process::{Pid, test_kill_process};

use super::error::StoreError;
use super::layout::Layout;
use crate::domain::RunRecord;
use crate::domain::record::RECORD_SCHEMA;

/// Writes a file whole or not at all: beside the target, synced, renamed, and the folder synced after it.
///
/// Creates the parent folder where it is missing. Blocks; call it off the async threads.
///
/// # Errors
///
/// Whatever the operating system refuses; the target is then as it was.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let prefix = format!("{UNFINISHED}{}-", std::process::id());
    let mut file = tempfile::Builder::new().prefix(&prefix).tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    sync_folder(folder)
}

/// How the names of files begin that are being written; the number of the process that writes them follows.
const UNFINISHED: &str = ".writing-";

/// Removes what processes that are dead were writing in a folder. What cannot be removed stays.
///
/// Whoever shares the folder from another machine or container may lose a file that it is writing, and be told: call it
/// for folders that only one process at a time writes to.
pub fn remove_unfinished(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let writer = name.to_str().and_then(|name| name.strip_prefix(UNFINISHED)).and_then(|rest| rest.split_once('-'));
        let Some(pid) = writer.and_then(|(pid, _)| pid.parse().ok()).and_then(Pid::from_raw) else { continue };
        if test_kill_process(pid) == Err(rustix::io::Errno::SRCH) {
            // Somebody else may have been faster.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Makes a rename in a folder survive a power cut.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Writes an attempt's record to its place, before the store commits it: a result is then never lost.
///
/// # Errors
///
/// [`StoreError::File`]; [`StoreError::Record`] if it does not serialize.
pub fn write_record(layout: &Layout, record: &RunRecord) -> Result<(), StoreError> {
    let path = layout.record_path(&record.attempt);
    let mut bytes = serde_json::to_vec_pretty(record)
        .map_err(|error| StoreError::Record { path: path.clone(), message: error.to_string() })?;
    bytes.push(b'\n');
    write_atomic(&path, &bytes).map_err(|source| StoreError::File { action: "write", path, source })
}

/// Reads a record from disk.
///
/// # Errors
///
/// [`StoreError::File`], or [`StoreError::Record`] for a file that is no record or of a newer format.
pub fn read_record(path: &Path) -> Result<RunRecord, StoreError> {
    let bytes =
        fs::read(path).map_err(|source| StoreError::File { action: "read", path: path.to_path_buf(), source })?;
    let wrong = |message: String| StoreError::Record { path: path.to_path_buf(), message };
    let record: RunRecord = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
    if record.schema > RECORD_SCHEMA {
        return Err(wrong(format!("it has format {}, this Refrain reads {RECORD_SCHEMA}", record.schema)));
    }
    Ok(record)
}
