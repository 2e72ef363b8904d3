//! Scores open work by a rubric: what a judge is shown, how it is asked, what of its answers is believed, and how far it
//! agrees with people.
//!
//! A judge sees the same evidence whatever harness did the work: the task, the diff, chosen files, what was checked. All of
//! that is data to it. Its answer is one JSON object with a score in range for each criterion, or it is no answer:
//! nothing is clamped, guessed or taken for 0. Requests go through a [`Door`] that somebody else holds.
//!
//! Start with [`ask`]; the decision what an answer says is the pure function [`answer::parse`].

pub mod agreement;
pub mod answer;
mod asking;
mod calibration;
mod evidence;
pub mod prompt;
mod tally;
pub mod wire;

pub use asking::{Asked, Door, DoorError, Reply, ask};
pub use calibration::{CALIBRATION_SCHEMA, Calibration};
pub use evidence::Evidence;
pub use prompt::{Prompt, version};
