//! `refrain new`: a new orchestrator.

use std::io::ErrorKind;
use std::path::PathBuf;

use super::{Failed, Outcome, exit, output};
use crate::script::scaffold::scaffold;

/// Write a new orchestrator: a strategy that works, with a test
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  refrain new my-strategy\n  refrain new my-strategy --dir orchestrators && \
                        refrain test orchestrators/my-strategy")]
pub(super) struct Args {
    /// Its name: lower-case letters, digits, single hyphens
    slug: String,
    /// Where its folder is made
    #[arg(long, default_value = ".", value_name = "PATH")]
    dir: PathBuf,
}

pub(super) fn main(args: &Args) -> Outcome {
    let files = scaffold(&args.slug).map_err(Failed::usage)?;
    std::fs::create_dir_all(&args.dir)?;
    let dir = args.dir.join(&args.slug);
    // Making the folder is what finds out that it is there: nothing in it can be overwritten.
    std::fs::create_dir(&dir).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Failed::usage(anyhow::anyhow!("`{}` exists already", dir.display()))
            .with_hint("nothing was written; choose another name or another `--dir`"),
        _ => Failed::usage(anyhow::anyhow!("cannot make `{}`: {error}", dir.display())),
    })?;
    for (name, content) in files {
        let path = dir.join(name);
        std::fs::write(&path, content)?;
        output::write(&format!("{}\n", path.display()))?;
    }
    super::run::eprint_line(&format!("{:>12} refrain test {}", "Next", dir.display()));
    Ok(exit::OK)
}
