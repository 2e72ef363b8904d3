//! `refrain init`: a starter project.

use std::io::Write;
use std::path::PathBuf;

use super::{Failed, Outcome, exit, output};

/// Write a starter run file with one task, ready to run
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  refrain init\n  refrain init evaluations && cd evaluations && \
                        refrain run runs/starter.yaml")]
pub(super) struct Args {
    /// Where to write it
    #[arg(default_value = ".")]
    dir: PathBuf,
}

/// The starter project: relative path and content.
const FILES: &[(&str, &str)] = &[
    ("runs/starter.yaml", include_str!("starter/starter.yaml")),
    ("runs/starter.play.yaml", include_str!("starter/starter.play.yaml")),
    ("tasks/greeting/task.yaml", include_str!("starter/task.yaml")),
    ("tasks/greeting/repo/greet.sh", include_str!("starter/greet.sh")),
    ("tasks/greeting/tests/hidden.sh", include_str!("starter/hidden.sh")),
];

/// Lines that a project's `.gitignore` needs.
const IGNORED: &[&str] = &["/.refrain/", "/refrain.db*"];

pub(super) fn main(args: &Args) -> Outcome {
    for (name, _) in FILES {
        let path = args.dir.join(name);
        if path.exists() {
            let error = anyhow::anyhow!("`{}` exists already", path.display());
            return Err(Failed::usage(error).with_hint("nothing was written; choose another directory"));
        }
    }
    for (name, content) in FILES {
        let path = args.dir.join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(&path, content)?;
        output::write(&format!("{}\n", path.display()))?;
    }
    ignore_output(&args.dir)?;
    let cd = if args.dir.as_os_str() == "." { String::new() } else { format!("cd {} && ", args.dir.display()) };
    super::run::eprint_line(&format!("{:>12} {cd}refrain run runs/starter.yaml", "Next"));
    Ok(exit::OK)
}

/// Adds what a run leaves to `.gitignore`, once.
fn ignore_output(dir: &std::path::Path) -> Result<(), Failed> {
    let path = dir.join(".gitignore");
    let present = std::fs::read_to_string(&path).unwrap_or_default();
    let missing: Vec<_> = IGNORED.iter().filter(|line| !present.lines().any(|have| have == **line)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&path)?;
    if !present.is_empty() && !present.ends_with('\n') {
        writeln!(file)?;
    }
    for line in missing {
        writeln!(file, "{line}")?;
    }
    Ok(())
}
