//! The file of a tape.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use data_encoding::BASE64;
use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::domain::{Attribution, CellId, ExchangeEnd, Trace};
use crate::redact::Redactor;

/// The version that is written. A change that an older reader would take wrongly gets a new one.
const VERSION: u32 = 1;

/// A tape cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CassetteError {
    /// The file cannot be read or written.
    #[error("the cassette {path} cannot be used: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file holds something else.
    #[error("{path} is no cassette: {message}; choose another file", path = path.display())]
    NoTape {
        /// The file.
        path: PathBuf,
        /// What is there.
        message: String,
    },
    /// The tape is of a later version.
    #[error("the cassette {path} has version {version}, and this program knows version 1; use a newer one", path = path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// An earlier write failed.
    #[error("the cassette takes no more after a failed write")]
    Broken,
}

/// The request of an exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedRequest {
    /// The interface, by the name that exchanges have.
    pub api: String,
    /// The path with its query.
    pub path: String,
    /// Hash of the body as it came.
    pub fingerprint: String,
    /// The body as it came.
    pub body: Bytes,
}

/// The answer of an exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedAnswer {
    /// The status; `None` where no answer came at all.
    pub status: Option<u16>,
    /// Headers that clients act on, in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, in the pieces in which it came, without compression.
    pub pieces: Vec<Bytes>,
    /// How the exchange ended.
    pub end: ExchangeEnd,
}

impl RecordedAnswer {
    /// Takes secrets out. Where there are any the body is in one piece afterwards: they may have lain across two.
    pub(super) fn redacted(self, redactor: &Redactor) -> Self {
        let whole = self.pieces.concat();
        let clean = redactor.redact_bytes(&whole);
        if clean == whole { self } else { Self { pieces: vec![clean.into()], ..self } }
    }
}

/// Which part of the tape a session plays.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Part {
    cell: Option<CellId>,
    attempt: u32,
    session: u32,
    trace: Trace,
}

impl Part {
    pub(super) fn of(whose: &Attribution) -> Self {
        let Attribution { cell, attempt, session, trace, .. } = whose;
        Self { cell: cell.clone(), attempt: *attempt, session: *session, trace: *trace }
    }

    /// The same part of this and of the attempts before, the last first.
    pub(super) fn and_before(&self) -> impl Iterator<Item = Self> {
        (1..=self.attempt).rev().map(|attempt| Self { attempt, ..self.clone() })
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Head {
    refrain_tape: u32,
    by: String,
}

/// An exchange on the tape.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Line {
    pub(super) part: Part,
    pub(super) number: u32,
    pub(super) api: String,
    pub(super) path: String,
    pub(super) fingerprint: String,
    /// Without what differs from run to run.
    pub(super) request: Value,
    status: Option<u16>,
    headers: Vec<(String, String)>,
    pieces: Vec<Piece>,
    pub(super) end: ExchangeEnd,
}

/// A piece of a body. Text stays readable.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Piece {
    Text(String),
    Base64(String),
}

impl Line {
    pub(super) fn new(
        whose: &Attribution,
        number: u32,
        request: &RecordedRequest,
        normal: Value,
        answer: RecordedAnswer,
    ) -> Self {
        let RecordedRequest { api, path, fingerprint, .. } = request.clone();
        let RecordedAnswer { status, headers, pieces, end } = answer;
        let piece = |bytes: Bytes| match String::from_utf8(bytes.into()) {
            Ok(text) => Piece::Text(text),
            Err(error) => Piece::Base64(BASE64.encode(error.as_bytes())),
        };
        let pieces = pieces.into_iter().map(piece).collect();
        Self { part: Part::of(whose), number, api, path, fingerprint, request: normal, status, headers, pieces, end }
    }

    pub(super) fn answer(&self) -> RecordedAnswer {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone().into(),
            Piece::Base64(text) => BASE64.decode(text.as_bytes()).unwrap_or_default().into(),
        };
        RecordedAnswer {
            status: self.status,
            headers: self.headers.clone(),
            pieces: self.pieces.iter().map(piece).collect(),
            end: self.end,
        }
    }
}

/// Writes a tape.
#[derive(Debug)]
pub(super) struct Writer {
    path: PathBuf,
    file: File,
    compressed: bool,
}

impl Writer {
    /// Opens a tape to write on from its last whole line.
    pub(super) fn open(path: &Path) -> Result<Self, CassetteError> {
        let broken = |source| CassetteError::Io { path: path.to_owned(), source };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(broken)?;
        }
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(broken)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(broken)?;
        let whole = lines(path, &bytes, |_| Ok(()))?;
        file.set_len(whole).and_then(|()| file.seek(SeekFrom::Start(whole))).map_err(broken)?;
        let mut writer = Self { path: path.to_owned(), file, compressed: is_compressed(path) };
        writer.put(&Head { refrain_tape: VERSION, by: concat!("refrain ", env!("CARGO_PKG_VERSION")).to_owned() })?;
        Ok(writer)
    }

    /// Adds an exchange.
    pub(super) fn write(&mut self, line: &Line) -> Result<(), CassetteError> {
        self.put(line)
    }

    fn put(&mut self, value: &impl Serialize) -> Result<(), CassetteError> {
        let written = serde_json::to_vec(value).map_err(io::Error::from).and_then(|mut text| {
            text.push(b'\n');
            if self.compressed {
                let mut packer = GzEncoder::new(Vec::new(), Compression::default());
                packer.write_all(&text)?;
                text = packer.finish()?;
            }
            self.file.write_all(&text)
        });
        written.map_err(|source| CassetteError::Io { path: self.path.clone(), source })
    }
}

/// Reads the exchanges of a tape in the order in which they were written. Of a part that was recorded more than once only the
/// last recording is left.
pub(super) fn read(path: &Path) -> Result<Vec<Line>, CassetteError> {
    let bytes = std::fs::read(path).map_err(|source| CassetteError::Io { path: path.to_owned(), source })?;
    let (mut read, mut recording) = (Vec::<(u32, Line)>::new(), 0);
    lines(path, &bytes, |text| {
        let no_tape = |error: serde_json::Error| CassetteError::NoTape {
            path: path.to_owned(),
            message: format!("a line of it is no exchange: {error}"),
        };
        if head(path, text)? {
            recording += 1;
        } else {
            read.push((recording, serde_json::from_slice(text).map_err(no_tape)?));
        }
        Ok(())
    })?;
    if recording == 0 {
        return Err(CassetteError::NoTape { path: path.to_owned(), message: "it is empty".to_owned() });
    }
    let last: HashMap<Part, u32> = read.iter().map(|(recording, line)| (line.part.clone(), *recording)).collect();
    let is_last = |(recording, line): (u32, Line)| (last.get(&line.part) == Some(&recording)).then_some(line);
    Ok(read.into_iter().filter_map(is_last).collect())
}

/// Tells whether a line is a head of a version that is known.
fn head(path: &Path, text: &[u8]) -> Result<bool, CassetteError> {
    match serde_json::from_slice(text) {
        Ok(Head { refrain_tape: VERSION, .. }) => Ok(true),
        Ok(Head { refrain_tape: version, .. }) => Err(CassetteError::Version { path: path.to_owned(), version }),
        Err(_) => Ok(false),
    }
}

/// Hands on each whole line and returns where the last one ends. The first must be a head.
fn lines(
    path: &Path,
    bytes: &[u8],
    mut each: impl FnMut(&[u8]) -> Result<(), CassetteError>,
) -> Result<u64, CassetteError> {
    let (mut rest, mut first) = (bytes, true);
    loop {
        let unpacked;
        let (text, after) = if is_compressed(path) {
            let mut packed = GzDecoder::new(rest);
            let mut text = Vec::new();
            // A member that is cut cannot be unpacked to its end.
            let whole = !rest.is_empty() && packed.read_to_end(&mut text).is_ok();
            unpacked = text;
            (if whole { unpacked.strip_suffix(b"\n") } else { None }, packed.into_inner())
        } else {
            let end = memchr::memchr(b'\n', rest);
            (end.map(|end| &rest[..end]), end.map_or(rest, |end| &rest[end + 1..]))
        };
        let Some(text) = text else { break };
        if first && !head(path, text)? {
            return Err(CassetteError::NoTape {
                path: path.to_owned(),
                message: "its first line is no head".to_owned(),
            });
        }
        first = false;
        each(text)?;
        rest = after;
    }
    if first && !bytes.is_empty() {
        return Err(CassetteError::NoTape { path: path.to_owned(), message: "it has no line".to_owned() });
    }
    Ok((bytes.len() - rest.len()) as u64)
}

fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|name| name.eq_ignore_ascii_case("gz"))
}
