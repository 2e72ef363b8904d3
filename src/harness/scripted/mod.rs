//! The scripted agent: an offline coding agent that plays a file. For demos, tests, and strategies that are tried out
//! before they cost money.
//!
//! [`act`] is the whole program: it runs as a process of its own, changes real files, runs real commands and prints JSON
//! lines, which the manifest in `harnesses/scripted/` reads like those of any other harness. [`play`] is the file format.

mod actor;
pub mod play;

use std::io::Write;
use std::path::Path;

pub use play::{Cue, Play, PlayError};

/// Where and as what the agent acts.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    /// The play file.
    pub play: &'a Path,
    /// Id of the task.
    pub task: &'a str,
    /// Name of the phase, where there is one.
    pub phase: Option<&'a str>,
    /// Label that the script gave the session, where it gave one.
    pub label: Option<&'a str>,
    /// Number of the session, from 1.
    pub session: u32,
    /// What the agent was told.
    pub prompt: &'a str,
    /// The workspace.
    pub workspace: &'a Path,
}

/// Exit code for a play that cannot be played.
const BAD_PLAY: u8 = 2;

/// Plays one session and returns the exit code of the process.
///
/// Records go to `out`, what is wrong with the play goes to `err`.
pub fn act(scene: &Scene<'_>, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let played = Play::load(scene.play).and_then(|play| actor::perform(scene, play.session(&Cue::of(scene))?, out));
    match played {
        Ok(code) => code,
        Err(error) => {
            // Nobody may read the error any more; the exit code says enough.
            let _ = writeln!(err, "error: {error}");
            BAD_PLAY
        }
    }
}

#[cfg(test)]
mod tests;
