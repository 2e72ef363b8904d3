//! Reads the members of an archive, one after the other.
//!
//! Names come from an agent, and the daemon writes those that a header has no room for as length-prefixed records. They
//! are read by their length alone: whoever splits them at line ends lets a file's name add records of its own.

use std::io::{self, Read};

use tar::{EntryType, Header};

const BLOCK: usize = 512;
/// More for the name of one member is no name.
const MAX_EXTENSION: u64 = 1 << 20;

/// One member, as its headers tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) kind: EntryType,
    /// Its whole name, as it is.
    pub(super) path: Vec<u8>,
    /// The target of a link.
    pub(super) target: Vec<u8>,
    /// Bytes of content.
    pub(super) size: u64,
    pub(super) executable: bool,
    /// Seconds since 1970.
    pub(super) modified: u64,
}

/// An archive that is read. Between two members, reading it gives the content of the first.
#[derive(Debug)]
pub(super) struct Members<R> {
    source: R,
    content: u64,
    padding: u64,
}

/// What headers before a member's own say of it.
#[derive(Debug, Default)]
struct Extensions {
    path: Option<Vec<u8>>,
    target: Option<Vec<u8>>,
    size: Option<u64>,
}

impl<R: Read> Members<R> {
    pub(super) fn new(source: R) -> Self {
        Self { source, content: 0, padding: 0 }
    }

    /// Goes to the next member; `None` after the last one. An archive that ends without saying so is an error.
    pub(super) fn next(&mut self) -> io::Result<Option<Member>> {
        let mut known = Extensions::default();
        loop {
            self.skip()?;
            let Some(header) = self.header()? else { return Ok(None) };
            let size = header.entry_size()?;
            match header.entry_type() {
                EntryType::GNULongName => known.path = Some(until_nul(self.extension(size)?)),
                EntryType::GNULongLink => known.target = Some(until_nul(self.extension(size)?)),
                EntryType::XHeader => records(&self.extension(size)?, &mut known)?,
                EntryType::XGlobalHeader => drop(self.extension(size)?),
                kind => return self.member(kind, &header, size, known).map(Some),
            }
        }
    }

    fn member(&mut self, kind: EntryType, header: &Header, size: u64, known: Extensions) -> io::Result<Member> {
        let size = match kind {
            EntryType::Regular | EntryType::Continuous => known.size.unwrap_or(size),
            EntryType::Link
            | EntryType::Symlink
            | EntryType::Char
            | EntryType::Block
            | EntryType::Directory
            | EntryType::Fifo => 0,
            other => {
                return Err(broken(format!("holds a member of the unknown kind {:?}", char::from(other.as_byte()))));
            }
        };
        self.expect(size);
        Ok(Member {
            kind,
            path: known.path.unwrap_or_else(|| header.path_bytes().into_owned()),
            target: known.target.or_else(|| header.link_name_bytes().map(Into::into)).unwrap_or_default(),
            size,
            executable: header.mode()? & 0o100 != 0,
            modified: header.mtime().unwrap_or_default(),
        })
    }

    fn header(&mut self) -> io::Result<Option<Header>> {
        let mut header = Header::new_old();
        self.source.read_exact(header.as_mut_bytes()).map_err(ended)?;
        let bytes = header.as_bytes();
        if bytes.iter().all(|byte| *byte == 0) {
            // The end: whatever comes after it belongs to the stream, not to the archive.
            io::copy(&mut self.source, &mut io::sink())?;
            return Ok(None);
        }
        // The sum counts its own place as spaces.
        let sum = |range: &[u8]| range.iter().map(|byte| u32::from(*byte)).sum::<u32>();
        if sum(&bytes[..148]) + 8 * u32::from(b' ') + sum(&bytes[156..]) != header.cksum()? {
            return Err(broken("holds a header with a wrong sum"));
        }
        Ok(Some(header))
    }

    /// Reads the content of a member that describes the next one.
    fn extension(&mut self, size: u64) -> io::Result<Vec<u8>> {
        if size > MAX_EXTENSION {
            return Err(broken("holds a name that is too long"));
        }
        self.expect(size);
        let mut content = Vec::new();
        self.read_to_end(&mut content)?;
        Ok(content)
    }

    fn expect(&mut self, size: u64) {
        self.content = size;
        self.padding = size.wrapping_neg() % BLOCK as u64;
    }

    /// Passes over what was not read of a member.
    fn skip(&mut self) -> io::Result<()> {
        let left = self.content.saturating_add(self.padding);
        if io::copy(&mut (&mut self.source).take(left), &mut io::sink())? < left {
            return Err(ended(io::ErrorKind::UnexpectedEof.into()));
        }
        self.expect(0);
        Ok(())
    }
}

impl<R: Read> Read for Members<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let wanted = usize::try_from(self.content).unwrap_or(usize::MAX).min(into.len());
        let read = self.source.read(&mut into[..wanted])?;
        if read == 0 && wanted > 0 {
            return Err(ended(io::ErrorKind::UnexpectedEof.into()));
        }
        self.content -= read as u64;
        Ok(read)
    }
}

/// Reads records of the form `length key=value\n`, whose length counts all of it.
fn records(mut bytes: &[u8], into: &mut Extensions) -> io::Result<()> {
    let malformed = || broken("holds a malformed record");
    while !bytes.is_empty() {
        let space = bytes.iter().position(|byte| *byte == b' ').ok_or_else(malformed)?;
        let length = number(&bytes[..space]).and_then(|length| usize::try_from(length).ok()).ok_or_else(malformed)?;
        if length <= space + 1 || length > bytes.len() || bytes[length - 1] != b'\n' {
            return Err(malformed());
        }
        let record = &bytes[space + 1..length - 1];
        let equals = record.iter().position(|byte| *byte == b'=').ok_or_else(malformed)?;
        let (key, value) = (&record[..equals], &record[equals + 1..]);
        match key {
            b"path" => into.path = Some(value.to_vec()),
            b"linkpath" => into.target = Some(value.to_vec()),
            b"size" => into.size = Some(number(value).ok_or_else(malformed)?),
            // The content of such a file is in a form of its own.
            key if key.starts_with(b"GNU.sparse.") => return Err(broken("holds a sparse file")),
            _ => {}
        }
        bytes = &bytes[length..];
    }
    Ok(())
}

fn number(digits: &[u8]) -> Option<u64> {
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn until_nul(mut bytes: Vec<u8>) -> Vec<u8> {
    if let Some(end) = bytes.iter().position(|byte| *byte == 0) {
        bytes.truncate(end);
    }
    bytes
}

fn broken(what: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the daemon's archive {what}"))
}

fn ended(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the daemon's archive ends early; did a file change while it was read?",
        )
    } else {
        error
    }
}

#[cfg(test)]
mod tests;
