//! Fetching what a command's wrapper has left in the container: the log, and the closing record.
//!
//! By archive, which needs no process there: it works where nothing can be started any more, and also in a container
//! that has stopped.

use std::time::{Duration, SystemTime};

use bollard::query_parameters::{ContainerArchiveInfoOptionsBuilder, DownloadFromContainerOptionsBuilder};

use super::super::container::Container;
use super::super::error::{failed, is_absent};
use super::daemon::{next_piece, patiently, promptly};
use crate::runtime::RuntimeError;

/// The unit of an archive.
const BLOCK: usize = 512;

/// Returns the size of a file in the container; `None` where there is none.
pub(super) async fn size(container: &Container, path: &str) -> Option<u64> {
    let options = ContainerArchiveInfoOptionsBuilder::new().path(path).build();
    let found = promptly(container.client.get_container_archive_info(&container.id, Some(options))).await?;
    u64::try_from(found.size).ok()
}

/// Returns when a file in the container was last written, by the clock of the daemon's machine.
pub(super) async fn modified(container: &Container, path: &str) -> Option<SystemTime> {
    let options = ContainerArchiveInfoOptionsBuilder::new().path(path).build();
    let found = promptly(container.client.get_container_archive_info(&container.id, Some(options))).await?;
    let at: jiff::Timestamp = found.modification_time?.parse().ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::try_from(at.as_duration()).ok()?)
}

/// Hands on the content of a regular file in the container, at most `most` bytes of it. Returns how many bytes there
/// were, or `None` where there is no such file: the agent may have removed it, or put something else in its place.
pub(super) async fn fetch(
    container: &Container,
    path: &str,
    most: u64,
    content: &mut (dyn FnMut(&[u8]) -> Result<(), RuntimeError> + Send),
) -> Result<Option<u64>, RuntimeError> {
    // An answer at all first: the download itself is not begun anew.
    let exists = patiently(|| {
        let options = ContainerArchiveInfoOptionsBuilder::new().path(path).build();
        container.client.get_container_archive_info(&container.id, Some(options))
    });
    match exists.await {
        Ok(_) => {}
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(failed("fetch the log", &error)),
    }
    let options = DownloadFromContainerOptionsBuilder::new().path(path).build();
    let mut archive = container.client.download_from_container(&container.id, Some(options));
    let mut entry = Entry::new(most);
    while let Some(piece) = next_piece(&mut archive).await {
        match piece {
            Ok(bytes) => entry.push(&bytes, content)?,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(failed("fetch the log", &error)),
        }
        match entry.state {
            State::Open => {}
            State::Whole => return Ok(Some(entry.taken)),
            State::NoFile => return Ok(None),
        }
    }
    let source = std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "the archive of the log ends early");
    Err(RuntimeError::Io { action: "fetch the log", source })
}

/// Reads the one file of an archive as it comes.
#[derive(Debug)]
struct Entry {
    header: Vec<u8>,
    /// Bytes of the file that are still to come, and how many have come.
    left: u64,
    taken: u64,
    /// Bytes to leave out: of headers that say more about the next one.
    skip: u64,
    most: u64,
    state: State,
}

/// How far an archive's one file has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// More is to come.
    Open,
    /// All of it that is wanted was there.
    Whole,
    /// It is none.
    NoFile,
}

impl Entry {
    fn new(most: u64) -> Self {
        Self { header: Vec::with_capacity(BLOCK), left: 0, taken: 0, skip: 0, most, state: State::Open }
    }

    fn push(
        &mut self,
        mut bytes: &[u8],
        content: &mut (dyn FnMut(&[u8]) -> Result<(), RuntimeError> + Send),
    ) -> Result<(), RuntimeError> {
        while !bytes.is_empty() && self.state == State::Open {
            if self.left > 0 {
                let part = cut(&mut bytes, self.left);
                content(part)?;
                self.left -= part.len() as u64;
                self.taken += part.len() as u64;
                self.state = if self.left == 0 { State::Whole } else { State::Open };
            } else if self.skip > 0 {
                self.skip -= cut(&mut bytes, self.skip).len() as u64;
            } else {
                self.header.extend_from_slice(cut(&mut bytes, (BLOCK - self.header.len()) as u64));
                if self.header.len() == BLOCK {
                    self.begin();
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self) {
        let header = tar::Header::from_byte_slice(&self.header);
        let size = header.entry_size().unwrap_or(0);
        match header.entry_type() {
            tar::EntryType::Regular | tar::EntryType::Continuous => {
                self.left = size.min(self.most);
                self.state = if self.left == 0 { State::Whole } else { State::Open };
            }
            tar::EntryType::XHeader | tar::EntryType::XGlobalHeader | tar::EntryType::GNULongName => {
                self.skip = size.next_multiple_of(BLOCK as u64);
            }
            _ => self.state = State::NoFile,
        }
        self.header.clear();
    }
}

/// Cuts up to `most` bytes off the front.
fn cut<'b>(bytes: &mut &'b [u8], most: u64) -> &'b [u8] {
    let (part, rest) = bytes.split_at(usize::try_from(most).unwrap_or(usize::MAX).min(bytes.len()));
    *bytes = rest;
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(archive: &[u8], piece: usize, most: u64) -> (Vec<u8>, State) {
        let (mut found, mut entry) = (Vec::new(), Entry::new(most));
        for part in archive.chunks(piece) {
            entry
                .push(part, &mut |bytes| {
                    found.extend_from_slice(bytes);
                    Ok(())
                })
                .expect("kept");
        }
        (found, entry.state)
    }

    fn archive(kind: tar::EntryType, content: &[u8]) -> Vec<u8> {
        let mut archive = tar::Builder::new(Vec::new());
        archive.append_pax_extensions([("mtime", b"1.5".as_slice())]).expect("written");
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        archive.append_data(&mut header, "log", content).expect("written");
        archive.into_inner().expect("whole")
    }

    #[test]
    fn a_file_is_read_however_its_archive_is_cut_and_no_further_than_allowed() {
        let bytes = archive(tar::EntryType::Regular, &[b'x'; 1000]);
        for piece in [1, 7, 512, 100_000] {
            assert_eq!(read(&bytes, piece, 5000), (vec![b'x'; 1000], State::Whole));
            assert_eq!(read(&bytes, piece, 10), (vec![b'x'; 10], State::Whole));
        }
        assert_eq!(read(&archive(tar::EntryType::Regular, b""), 512, 10), (vec![], State::Whole));
        assert_eq!(read(&bytes[..1600], 512, 5000).1, State::Open);
    }

    #[test]
    fn what_is_no_file_is_no_log() {
        assert_eq!(read(&archive(tar::EntryType::Symlink, b""), 512, 10), (vec![], State::NoFile));
        assert_eq!(read(&archive(tar::EntryType::Directory, b""), 512, 10), (vec![], State::NoFile));
    }
}
