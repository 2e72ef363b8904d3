//! `run_record.json`: written so that a reader finds the old file or the new one, and nothing between.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

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
    let mut file = tempfile::Builder::new().prefix(".writing-").tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    sync_folder(folder)
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
