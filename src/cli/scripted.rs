//! `refrain scripted-agent`: the offline agent behind the `scripted` harness. Hidden: harnesses start it, people do not.

use std::path::PathBuf;

use super::Outcome;
use crate::harness::scripted::{self, Scene};

/// Play one session of a play file (started by the `scripted` harness)
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The play file
    #[arg(long)]
    play: PathBuf,
    /// The task
    #[arg(long)]
    task: String,
    /// The phase
    #[arg(long, default_value = "")]
    phase: String,
    /// The session's label
    #[arg(long, default_value = "")]
    label: String,
    /// The number of the session in its attempt
    #[arg(long)]
    session: u32,
    /// An earlier session to continue; a play goes by numbers and knows no difference
    #[arg(long)]
    resume: Option<String>,
    /// The workspace
    #[arg(long)]
    workspace: PathBuf,
}

pub(super) fn main(args: &Args) -> Outcome {
    let prompt = std::io::read_to_string(std::io::stdin())?;
    let scene = Scene {
        play: &args.play,
        task: &args.task,
        phase: Some(args.phase.as_str()).filter(|phase| !phase.is_empty()),
        label: Some(args.label.as_str()).filter(|label| !label.is_empty()),
        session: args.session,
        prompt: &prompt,
        workspace: &args.workspace,
    };
    Ok(scripted::act(&scene, &mut std::io::stdout().lock(), &mut std::io::stderr().lock()))
}
