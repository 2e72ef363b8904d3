//! Reads the logs that sessions have left in the state folder again, through today's adapters.

use std::fs::File;
use std::io;
use std::path::Path;

use flate2::read::GzDecoder;

use crate::config::harness_manifest::OutputSpec;
use crate::config::plan::HarnessEntry;
use crate::harness::declarative::DeclarativeHarness;
use crate::harness::session::read_events;
use crate::harness::{AgentEvent, Harness};
use crate::report::trajectory::Happening;
use crate::runtime::Stream;

/// What reads the output of a harness.
#[derive(Debug)]
pub struct Adapter {
    harness: DeclarativeHarness,
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
        Ok(Self { harness, plain })
    }
}

/// Reads the streams of a session from `folder`, where they lie as `stdout.log.gz` and `stderr.log.gz` or, of a recording,
/// as `stdout` and `stderr`. A stream that is not there was empty.
///
/// # Errors
///
/// What the operating system says, or that a stream is damaged.
pub fn read_stored(adapter: &Adapter, folder: &Path) -> io::Result<Vec<Happening>> {
    let mut reader = adapter.harness.reader();
    let mut found = Vec::new();
    for (stream, name) in [(Stream::Stdout, "stdout"), (Stream::Stderr, "stderr")] {
        let Some(mut source) = open(folder, name)? else { continue };
        read_events(&mut *reader, stream, &mut *source, &mut |event| found.extend(happening(event)))?;
    }
    Ok(if adapter.plain { joined(found) } else { found })
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

fn happening(event: AgentEvent) -> Option<Happening> {
    Some(match event {
        AgentEvent::Message(text) => Happening::Message(text),
        AgentEvent::Tool { name, ok, duration } => Happening::Call { name, ok, duration },
        AgentEvent::ToolEnd { name, ok, duration } => Happening::CallEnd { name, ok, duration },
        AgentEvent::FileEdit(path) => Happening::FileEdit(path),
        AgentEvent::Command { line, ok } => Happening::Command { line, ok },
        AgentEvent::Error(text) => Happening::Notice(text),
        AgentEvent::Retrying { .. } => Happening::Notice(event.words()?),
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
