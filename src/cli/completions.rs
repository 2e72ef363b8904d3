//! `refrain completions`: a completion script for a shell.

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Cli, Outcome, exit, output};

/// Print a completion script for your shell
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  refrain completions bash > ~/.local/share/bash-completion/completions/refrain")]
pub(super) struct Args {
    /// The shell
    shell: Shell,
}

pub(super) fn main(args: &Args) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "refrain", &mut script);
    output::write(&String::from_utf8_lossy(&script))?;
    Ok(exit::OK)
}
