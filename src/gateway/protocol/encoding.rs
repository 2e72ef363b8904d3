//! Unpacks a copy of a body that is compressed. What passes stays as it is.

use std::fmt;

use flate2::{Decompress, FlushDecompress, Status};

/// The most that is unpacked at a time.
const PIECE: usize = 32 * 1024;

/// The head of a gzip member is shorter than this, names of files and comments included.
const LONGEST_HEAD: usize = 16 * 1024;

/// Why a body cannot be unpacked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// A coding that is not understood.
    Unknown(String),
    /// The data is not what it says it is.
    Broken,
}

/// Unpacks a body piece by piece.
pub(super) struct Unpacker {
    coding: Coding,
    /// A head that has not come as a whole.
    head: Vec<u8>,
    state: State,
    /// A whole member was read: what follows and is none is padding.
    one_read: bool,
    inflate: Decompress,
    piece: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    Gzip,
    /// With the zlib head that the standard wants, or without, as some servers send it.
    Deflate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Head,
    Body,
    /// This many bytes of a trailer are left, and then there may be another member.
    Trailer(u8),
    Over,
    Broken,
}

impl fmt::Debug for Unpacker {
    /// Shows nothing of the body.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unpacker").field("coding", &self.coding).field("state", &self.state).finish_non_exhaustive()
    }
}

impl Unpacker {
    /// Returns `None` where nothing is packed.
    pub(super) fn of(content_encoding: Option<&str>) -> Result<Option<Self>, Unreadable> {
        let name = content_encoding.unwrap_or_default().trim().to_ascii_lowercase();
        let coding = match name.as_str() {
            "" | "identity" => return Ok(None),
            "gzip" | "x-gzip" => Coding::Gzip,
            "deflate" => Coding::Deflate,
            _ => return Err(Unreadable::Unknown(name)),
        };
        Ok(Some(Self {
            coding,
            head: Vec::new(),
            state: State::Head,
            one_read: false,
            inflate: Decompress::new(false),
            piece: vec![0; PIECE],
        }))
    }

    /// Unpacks a piece and hands on what comes out.
    pub(super) fn feed(&mut self, mut bytes: &[u8], mut out: impl FnMut(&[u8])) -> Result<(), Unreadable> {
        while !bytes.is_empty() {
            bytes = match self.state {
                State::Head => self.begin(bytes, &mut out),
                State::Over => return Ok(()),
                State::Body => self.inflate(bytes, &mut out),
                State::Trailer(left) => {
                    let taken = usize::from(left).min(bytes.len());
                    let left = left - u8::try_from(taken).unwrap_or(left);
                    self.state = if left > 0 { State::Trailer(left) } else { State::Head };
                    Ok(&bytes[taken..])
                }
                State::Broken => Err(Unreadable::Broken),
            }
            .inspect_err(|_| self.state = State::Broken)?;
        }
        Ok(())
    }

    /// Takes bytes of the head, up to its end.
    fn begin<'a>(&mut self, bytes: &'a [u8], out: &mut impl FnMut(&[u8])) -> Result<&'a [u8], Unreadable> {
        for (at, byte) in bytes.iter().enumerate() {
            self.head.push(*byte);
            let whole = match (self.coding, self.head.as_slice()) {
                (Coding::Gzip, head) => match is_gzip_head(head) {
                    Err(_) if self.one_read => {
                        self.state = State::Over;
                        return Ok(&[]);
                    }
                    whole => whole?,
                },
                // The method in the low bits, and a checksum over both bytes.
                (Coding::Deflate, [first, second]) => {
                    let zlib = first & 0x0F == 8 && (u16::from(*first) << 8 | u16::from(*second)).is_multiple_of(31);
                    if !zlib {
                        let head = [*first, *second];
                        self.state = State::Body;
                        self.inflate(&head, out)?;
                        return Ok(&bytes[at + 1..]);
                    }
                    true
                }
                (Coding::Deflate, _) => false,
            };
            if whole {
                self.head.clear();
                self.inflate.reset(false);
                self.state = State::Body;
                return Ok(&bytes[at + 1..]);
            }
        }
        Ok(&[])
    }

    fn inflate<'a>(&mut self, mut bytes: &'a [u8], out: &mut impl FnMut(&[u8])) -> Result<&'a [u8], Unreadable> {
        loop {
            let (read, written) = (self.inflate.total_in(), self.inflate.total_out());
            let status = self
                .inflate
                .decompress(bytes, &mut self.piece, FlushDecompress::Sync)
                .map_err(|_| Unreadable::Broken)?;
            let count = |after: u64, before: u64| usize::try_from(after - before).unwrap_or(usize::MAX);
            let (taken, made) = (count(self.inflate.total_in(), read), count(self.inflate.total_out(), written));
            bytes = bytes.get(taken..).ok_or(Unreadable::Broken)?;
            out(self.piece.get(..made).ok_or(Unreadable::Broken)?);
            if status == Status::StreamEnd {
                self.one_read = true;
                self.state = if self.coding == Coding::Gzip { State::Trailer(8) } else { State::Over };
                return Ok(bytes);
            }
            // Nothing moves any more: all that can come out of these bytes is out.
            if taken == 0 && made == 0 {
                return if bytes.is_empty() { Ok(bytes) } else { Err(Unreadable::Broken) };
            }
        }
    }
}

/// Tells whether this is the whole head of a gzip member.
fn is_gzip_head(bytes: &[u8]) -> Result<bool, Unreadable> {
    const MAGIC: [u8; 3] = [0x1F, 0x8B, 8];
    let begun = bytes.len().min(MAGIC.len());
    if bytes[..begun] != MAGIC[..begun] || bytes.len() > LONGEST_HEAD {
        return Err(Unreadable::Broken);
    }
    Ok(gzip_head_length(bytes).is_some_and(|length| bytes.len() >= length))
}

/// The length of the head, as soon as it can be told.
fn gzip_head_length(bytes: &[u8]) -> Option<usize> {
    const CHECKSUM: u8 = 2;
    const EXTRA: u8 = 4;
    const NAME: u8 = 8;
    const COMMENT: u8 = 16;
    let flags = *bytes.get(3)?;
    let mut at = 10;
    if flags & EXTRA != 0 {
        let size = bytes.get(at..at + 2)?;
        at += 2 + usize::from(u16::from_le_bytes([size[0], size[1]]));
    }
    for text in [NAME, COMMENT] {
        if flags & text != 0 {
            at += bytes.get(at..)?.iter().position(|byte| *byte == 0)? + 1;
        }
    }
    Some(if flags & CHECKSUM != 0 { at + 2 } else { at })
}
