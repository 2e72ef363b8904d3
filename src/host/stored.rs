//! Reads the logs that sessions have left in the state folder again, through today's adapters.

use std::fs::File;
use std::io;
use std::path::Path;

use flate2::read::GzDecoder;

use crate::config::harness_manifest::OutputSpec;
use crate::config::plan::HarnessEntry;
use crate::harness::declarative::DeclarativeHarness;
use crate::harness::lines::read_lines;
use crate::harness::session::{conclude, read_events};
use crate::harness::{AgentEvent, Detail, Harness, LineEnd, OutputReader, Reading, session_file};
use crate::redact::Redactor;
use crate::report::trajectory::Happening;
use crate::runtime::Stream;

/// What reads the output of a harness.
#[derive(Debug)]
pub struct Adapter {
    harness: DeclarativeHarness,
    /// Whether the file that it keeps of a session, where it keeps one, is one document.
    session_file: Option<bool>,
    /// Each line is a message: together they are what the agent said.
    plain: bool,
}

impl Adapter {
    /// Makes the adapter of a harness that a run declares.
    ///
    /// # Errors
    ///
    /// As for [`super::declared_harness`].
    pub fn of(entry: &HarnessEntry) -> Result<Self, super::Error> {
        let harness = super::declared_harness(entry, Path::new("refrain"))?;
        let plain = entry.manifest.adapter.is_none() && matches!(entry.manifest.output, OutputSpec::Text);
        let session_file = entry.manifest.session_file.as_ref().map(|file| file.one_document);
        Ok(Self { harness, session_file, plain })
    }

    pub(super) fn harness(&self) -> &DeclarativeHarness {
        &self.harness
    }
}

/// Reads what is stored of a session from `folder`: its streams, and the file that its harness kept. They lie there as
/// `stdout.log.gz`, `stderr.log.gz` and `session.log.gz` or, of a recording, as `stdout`, `stderr` and `session`. A stream that
/// is not there was empty. Where the file tells steps of its own, it tells them instead of the streams.
///
/// # Errors
///
/// What the operating system says, or that a stream is damaged.
pub fn read_stored(adapter: &Adapter, folder: &Path) -> io::Result<Vec<Happening>> {
    let mut reader = adapter.harness.detailed_reader();
    // Secrets were taken out of the text of the log; what it spells in another way is found in what it says.
    let redactor = Redactor::default();
    let mut found = Vec::new();
    for (stream, name) in [(Stream::Stdout, "stdout"), (Stream::Stderr, "stderr")] {
        let Some(mut source) = open(folder, name)? else { continue };
        read_events(&mut *reader, stream, &mut *source, &mut |event| found.extend(happening(event, &redactor)))?;
    }
    let printed = if adapter.plain { joined(found) } else { found };
    let Some(one_document) = adapter.session_file else { return Ok(printed) };
    let Some(mut source) = open(folder, "session")? else { return Ok(printed) };
    let mut kept = Vec::new();
    let mut on_event = |event| kept.extend(happening(event, &redactor));
    session_file::read_events(&mut *reader, one_document, &mut *source, &mut on_event)?;
    let tells_steps = kept.iter().any(|one| matches!(one, Happening::Message(_) | Happening::Call { .. }));
    Ok(if tells_steps {
        std::iter::once(Happening::AllTold).chain(kept).collect()
    } else {
        printed.into_iter().chain(kept).collect()
    })
}

fn open(folder: &Path, name: &str) -> io::Result<Option<Box<dyn io::Read>>> {
    match File::open(folder.join(format!("{name}.log.gz"))) {
        Ok(file) => return Ok(Some(Box::new(GzDecoder::new(io::BufReader::new(file))))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    match File::open(folder.join(name)) {
        Ok(file) => Ok(Some(Box::new(file))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// What the stored logs of a session say today.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) reading: Reading,
    /// The end of what it printed on standard error.
    pub(super) stderr: Vec<u8>,
    /// Whether it printed anything on standard output.
    pub(super) printed: bool,
}

/// Why stored logs cannot tell anything anew.
#[derive(Debug)]
pub(super) enum Untold {
    /// None is there: it printed nothing, or what it printed is gone.
    Nothing,
    /// They are damaged, or only a part of them was kept.
    Bad(String),
}

/// Bytes of standard error of which the last lines may become part of a message: as many as a runtime keeps.
const STDERR_END: usize = 64 * 1024;

/// Reads all that is stored of a session, as it was read at its end.
pub(super) fn tell(adapter: &Adapter, folder: &Path, exit_code: Option<i32>) -> Result<Told, Untold> {
    let mut reader = adapter.harness.reader();
    let (mut stderr, mut printed, mut any, mut skipped) = (Vec::new(), false, false, 0);
    for (stream, name) in [(Stream::Stdout, "stdout"), (Stream::Stderr, "stderr")] {
        let bad = |error: io::Error| Untold::Bad(format!("its {name}.log cannot be read: {error}"));
        let Some(source) = open(folder, name).map_err(bad)? else { continue };
        let mut source = Ending::of(source, if stream == Stream::Stderr { STDERR_END } else { NOTICE });
        skipped += read_stream(&mut *reader, stream, &mut source).map_err(bad)?;
        any = true;
        let end = source.finish();
        if is_cut(&end) {
            return Err(Untold::Bad(format!("only the beginning of its {name}.log was kept")));
        }
        if stream == Stream::Stderr {
            stderr = end;
        } else {
            printed = true;
        }
    }
    let mut note = None;
    if let Some(one_document) = adapter.session_file {
        let bad = |error: io::Error| Untold::Bad(format!("the copy of its harness's own file cannot be read: {error}"));
        if let Some(source) = open(folder, "session").map_err(bad)? {
            let mut source = Ending::of(source, NOTICE);
            note = session_file::read_from(&mut *reader, one_document, &mut source).map_err(bad)?;
            any = true;
            if is_cut(&source.finish()) {
                return Err(Untold::Bad("only the beginning of its harness's own file was kept".to_owned()));
            }
        }
    }
    if !any {
        return Err(Untold::Nothing);
    }
    let mut reading = conclude(reader, exit_code);
    reading.warnings.extend(note);
    if skipped > 0 {
        reading.warnings.push(format!("{skipped} lines were too long to be read"));
    }
    Ok(Told { reading, stderr, printed })
}

/// Reads a stream whose events are of no interest; returns how many lines were too long.
fn read_stream(reader: &mut dyn OutputReader, stream: Stream, source: &mut dyn io::Read) -> io::Result<u64> {
    let mut events = Vec::new();
    read_lines(source, &mut |line| {
        reader.line(stream, line, &mut events);
        events.clear();
    })
}

/// The longest notice that stands behind a stream of which a part was left out.
const NOTICE: usize = 200;

/// Tells whether a part of a stream was left out when it was stored.
fn is_cut(end: &[u8]) -> bool {
    let end = String::from_utf8_lossy(end);
    let last = end.trim_end_matches('\n').rsplit('\n').next().unwrap_or_default();
    last.starts_with("[refrain: ") && last.ends_with(" bytes left out]")
}

/// A source whose last bytes are kept while it is read.
struct Ending {
    source: Box<dyn io::Read>,
    end: Vec<u8>,
    kept: usize,
}

impl Ending {
    fn of(source: Box<dyn io::Read>, kept: usize) -> Self {
        Self { source, end: Vec::new(), kept }
    }

    fn finish(mut self) -> Vec<u8> {
        self.end.split_off(self.end.len().saturating_sub(self.kept))
    }
}

impl io::Read for Ending {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        let new = &buffer[..read];
        self.end.extend_from_slice(&new[new.len().saturating_sub(self.kept)..]);
        if self.end.len() > 2 * self.kept {
            self.end.drain(..self.end.len() - self.kept);
        }
        Ok(read)
    }
}

fn happening(event: AgentEvent, redactor: &Redactor) -> Option<Happening> {
    let redact = |text: &str| redactor.redact(text).into_string();
    Some(match event {
        AgentEvent::Message(text) => Happening::Message(text),
        AgentEvent::Tool { name, ok, duration } => Happening::Call { name, ok, duration },
        AgentEvent::ToolEnd { name, ok, duration } => Happening::CallEnd { name, ok, duration },
        AgentEvent::FileEdit(path) => Happening::FileEdit(path),
        AgentEvent::Command { line, ok } => Happening::Command { line, ok },
        AgentEvent::Error(text) => Happening::Notice(text),
        AgentEvent::Retrying { .. } => Happening::Notice(event.words()?),
        AgentEvent::Detail(detail) => match detail {
            Detail::Request(name) => Happening::Request(name),
            Detail::Call(id) => Happening::CallId(id),
            Detail::Thinking(text) => Happening::Thinking(redact(&text)),
            Detail::Input(mut value) => {
                redactor.redact_json(&mut value);
                Happening::Input(value)
            }
            Detail::Output(text) => Happening::Output(redact(&text)),
            Detail::LineEnd(LineEnd { at, request, usage, cost }) => Happening::LineEnd { at, request, usage, cost },
        },
        // Numbers and ends are on record.
        AgentEvent::SessionId(_) | AgentEvent::Usage(_) | AgentEvent::Cost(_) | AgentEvent::Finished => return None,
    })
}

/// Makes one message of those that follow each other.
fn joined(happenings: Vec<Happening>) -> Vec<Happening> {
    let mut all: Vec<Happening> = Vec::new();
    for happening in happenings {
        match (all.last_mut(), happening) {
            (Some(Happening::Message(text)), Happening::Message(more)) => {
                text.push('\n');
                text.push_str(&more);
            }
            (_, happening) => all.push(happening),
        }
    }
    all
}
