//! `refrain new`: a new orchestrator.

use std::io::ErrorKind;
use std::path::PathBuf;

use super::{Failed, Outcome, exit, output};
use crate::config::orchestrator_manifest::OrchestratorManifest;
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

/// A run that names the slug could mean either of the two.
fn refuse_builtin(slug: &str) -> Result<(), Failed> {
    if OrchestratorManifest::builtins()?.iter().any(|builtin| builtin.slug == slug) {
        let error = anyhow::anyhow!("`{slug}` is the slug of an orchestrator that comes with the program");
        let hint = format!(
            "nothing was written; choose another slug, such as `my-{slug}` (`refrain list orchestrators` shows those taken)"
        );
        return Err(Failed::usage(error).with_hint(hint));
    }
    Ok(())
}

pub(super) fn main(args: &Args) -> Outcome {
    let files = scaffold(&args.slug).map_err(Failed::usage)?;
    refuse_builtin(&args.slug)?;
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
