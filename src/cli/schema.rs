//! `refrain schema`: the JSON Schemas of the files that people write.

use std::path::PathBuf;

use super::{Failed, Outcome, exit, output};
use crate::config::schema;

/// Write the JSON Schemas of run, task, orchestrator and harness files
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  refrain schema               write schemas/*.json\n  \
                        refrain schema --check       fail if they are not up to date\n\n\
                        Exit codes: 0 done, 2 usage, or with --check a file differs")]
pub(super) struct Args {
    /// The folder to write to
    #[arg(long, default_value = "schemas")]
    dir: PathBuf,
    /// Compare instead of writing; exit with 2 if a file differs
    #[arg(long)]
    check: bool,
}

pub(super) fn main(args: &Args) -> Outcome {
    let mut stale = Vec::new();
    for (name, schema) in schema::all() {
        let path = args.dir.join(name);
        let mut text = serde_json::to_string_pretty(&schema).map_err(Failed::usage)?;
        text.push('\n');
        if args.check {
            if std::fs::read_to_string(&path).ok().as_deref() != Some(text.as_str()) {
                stale.push(path.display().to_string());
            }
        } else {
            std::fs::create_dir_all(&args.dir)?;
            std::fs::write(&path, text)?;
            output::write(&format!("{}\n", path.display()))?;
        }
    }
    if stale.is_empty() {
        return Ok(exit::OK);
    }
    let error = anyhow::anyhow!("not up to date: {}", stale.join(", "));
    Err(Failed::usage(error).with_hint("run `refrain schema` and commit what it writes"))
}
