//! Cassettes: what passed between a run and its providers, kept on a tape and played again.
//!
//! A run that is recorded leaves a portable file; one that replays it gets the same answers offline and for nothing, so
//! that a strategy, a parser or a new version of a harness runs again without a provider, in CI above all.
//!
//! # The file
//!
//! JSON lines, or with a name that ends in `.gz` the same with each line compressed by itself (a file that `zcat` reads).
//! The first line of each recording is a head, `{"refrain_tape":1,…}`; a version that is not known is refused. Each
//! further line is an exchange: whose it was (cell, attempt, session, trace) and its number there, the interface and path,
//! the fingerprint of the request's body, the request itself, and the answer's status, those headers that clients act on,
//! its body in the pieces in which it came, and how it ended. Secrets are taken out of both bodies before they are written.
//! A line is written when its exchange has ended, whole; what a crash leaves of the last line is left out. Recording on a
//! file that is there adds to it, and of a session that was recorded twice the last recording holds.
//!
//! # Which answer a request gets
//!
//! A session finds its part of the tape by its cell (harness, model, task, repeat and orchestrator, not the name of the run),
//! attempt and number; an attempt that the tape does not have plays the last one before it. In it a request gets the first answer that was not
//! given yet and whose request was equal: programs ask for titles and subagents beside their work, in no fixed order. Equal
//! means equal in JSON but for what two runs of the same program differ in anyway:
//!
//! - the fields `metadata`, `user`, `client_metadata`, `prompt_cache_key`, `prompt_cache_retention`, `safety_identifier` at the
//!   top and `session_id`, `conversation_id`, `thread_id`, `request_id` anywhere: left out;
//! - in texts: UUIDs, dates, times of day, measured durations, hexadecimal ids from six digits on, numbers from ten digits
//!   on, ids of processes;
//! - the session's own folders ([`Places`]): answers name those of the session that plays them;
//! - the working directory that the prompt names, wherever it occurs, what stands before a hidden folder in a path (the
//!   program's home), and names directly below folders for temporary files;
//! - numbers from a thousand million on: they are moments.
//!
//! [`Matching::Shape`] is for programs that say more which changes. There a request that equals none gets the first answer
//! whose request had the same interface, model, roles, kinds of content and tool calls.
//!
//! A request without an answer parts from the tape: it is refused with a diff of the request, and the client's session
//! with it goes where the client takes an error.

mod normal;
mod parted;
mod places;
mod player;
mod split;
mod tape;

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::Mutex as AsyncMutex;

use crate::domain::Attribution;
use crate::redact::Redactor;

pub use parted::Parted;
pub use places::Places;
pub use tape::{CassetteError, RecordedAnswer, RecordedRequest};

use player::Player;
use tape::{Line, Writer};

/// How a request finds its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Matching {
    /// By an equal request.
    #[default]
    Exact,
    /// By an equal request, or else by the first that is built alike.
    Shape,
}

/// A tape that records or plays. Clones are the same one.
#[derive(Clone)]
pub struct Cassette(Arc<Mode>);

enum Mode {
    Records { writer: AsyncMutex<Option<Writer>>, redactor: Redactor, broken: OnceLock<String> },
    Plays { player: Mutex<Player>, redactor: Redactor },
}

impl Cassette {
    /// Begins to record on this file, after what is on it.
    ///
    /// # Errors
    ///
    /// [`CassetteError`]: the file cannot be written, or is no tape.
    pub fn record(path: &Path, redactor: Redactor) -> Result<Self, CassetteError> {
        let writer = Writer::open(path)?;
        let writer = AsyncMutex::new(Some(writer));
        Ok(Self(Arc::new(Mode::Records { writer, redactor, broken: OnceLock::new() })))
    }

    /// Reads a tape, to play it from the start. It is held in memory.
    ///
    /// # Errors
    ///
    /// [`CassetteError`]: the file cannot be read, or is no tape of a version that is known.
    pub fn replay(path: &Path, matching: Matching, redactor: Redactor) -> Result<Self, CassetteError> {
        let player = Player::new(tape::read(path)?, matching);
        Ok(Self(Arc::new(Mode::Plays { player: Mutex::new(player), redactor })))
    }

    /// Tells whether it plays: nothing then goes to a provider.
    #[must_use]
    pub fn plays(&self) -> bool {
        matches!(*self.0, Mode::Plays { .. })
    }

    /// Says why it takes no more, once a line could not be written; what is asked of a provider from then on would be paid for
    /// and lost.
    #[must_use]
    pub fn broken(&self) -> Option<String> {
        if let Mode::Records { broken, .. } = &*self.0 { broken.get().cloned() } else { None }
    }

    /// Finds the answer to the next request of a session.
    ///
    /// # Errors
    ///
    /// [`Parted`]: the tape has none for it; always so while it records.
    pub fn answer(
        &self,
        whose: &Attribution,
        places: &Places,
        request: &RecordedRequest,
    ) -> Result<RecordedAnswer, Parted> {
        let Mode::Plays { player, redactor } = &*self.0 else { return Err(Parted::recording()) };
        let asked = normal::request(request, redactor, places);
        let found = player.lock().unwrap_or_else(PoisonError::into_inner).answer(whose, request, &asked)?;
        Ok(RecordedAnswer { pieces: places.shown_in(found.pieces), ..found })
    }

    /// Writes an exchange that has ended; does nothing while it plays. Returns once the line is in the file.
    ///
    /// # Errors
    ///
    /// [`CassetteError`]: the line could not be written. The tape is then of no use from here on, and takes no more.
    pub async fn keep(
        &self,
        (whose, places): (&Attribution, &Places),
        number: u32,
        request: &RecordedRequest,
        answer: RecordedAnswer,
    ) -> Result<(), CassetteError> {
        let Mode::Records { writer, redactor, broken } = &*self.0 else { return Ok(()) };
        let answer = answer.redacted(redactor);
        let answer = RecordedAnswer { pieces: places.hidden_in(answer.pieces), ..answer };
        let line = Line::new(whose, number, request, normal::request(request, redactor, places), answer);
        let mut standing = writer.lock().await;
        let Some(mut pen) = standing.take() else { return Err(CassetteError::Broken) };
        let written = tokio::task::spawn_blocking(move || pen.write(&line).map(|()| pen)).await;
        // A pen that failed is not put back: half a line must not be followed by another.
        let kept = written.map_err(|_| CassetteError::Broken).and_then(|written| written);
        let pen = kept.inspect_err(|error| drop(broken.set(error.to_string())))?;
        *standing = Some(pen);
        Ok(())
    }
}

impl std::fmt::Debug for Cassette {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cassette").field("plays", &self.plays()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
