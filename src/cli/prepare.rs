//! `refrain prepare`: makes ready what the cells of a run file need, ahead of the run.

use std::path::PathBuf;

use super::{Outcome, exit, output, run};
use crate::config::{self, LoadOptions};
use crate::host::ReadyHarness;

/// Pull the images of a run file and install its harnesses into them, and run nothing
///
/// `refrain run` does the same before its first cell. What is prepared is kept as an image `refrain/prepared:…` and found
/// again by every later run with the same image, harness and version. On the runtime `local` there is nothing to prepare.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  refrain prepare runs/nightly.yaml\n  \
                        refrain prepare runs/nightly.yaml --json | jq '.harnesses[].image.version'\n\n\
                        Exit codes: 0 everything is ready, 2 configuration (an installer or a probe failed), 3 runtime, \
                        image or network unavailable, 130 interrupted")]
pub(super) struct Args {
    /// The run file
    file: PathBuf,
    /// Prepare only what cells whose id matches the pattern need; may be given several times
    #[arg(long, value_name = "GLOB")]
    only: Vec<String>,
    /// Set a field of the run file, as in `--set docker_image=debian:12`; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Also look for orchestrators in this directory; may be given several times
    #[arg(long, value_name = "PATH")]
    orchestrator_dir: Vec<PathBuf>,
    /// Print what is ready as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn main(args: &Args) -> Outcome {
    let options = LoadOptions {
        set: args.set.clone(),
        orchestrator_dirs: super::list::orchestrator_path(&args.orchestrator_dir),
        only: args.only.clone(),
        ..LoadOptions::new(args.file.clone())
    };
    let (plan, warnings) = config::load(options)?;
    run::show_warnings(&warnings);
    let runtime = plan.runtime.clone();
    let ready = run::cancellable(|cancel| async move { Ok(run::host(true).make_ready(&plan, &cancel).await?) })?;
    if args.json {
        output::write_json(&serde_json::json!({"schema": 1, "runtime": runtime, "harnesses": ready}))?;
    } else if ready.iter().all(|harness| harness.image.is_none()) {
        output::write(&format!("nothing to prepare on the runtime `{runtime}`\n"))?;
    } else {
        output::write(&output::table(["harness", "state", "version", "image", "made from"], ready.iter().map(row)))?;
    }
    Ok(exit::OK)
}

fn row(ready: &ReadyHarness) -> [String; 5] {
    let none = || "-".to_owned();
    let Some(image) = &ready.image else {
        return [ready.harness.clone(), "not needed".to_owned(), none(), none(), none()];
    };
    let state = match (&image.prepared, image.reused) {
        (None, _) => "as it is",
        (Some(_), true) => "was there",
        (Some(_), false) => "installed",
    };
    let version = image.version.clone().unwrap_or_else(none);
    [ready.harness.clone(), state.to_owned(), version, image.image.clone(), short(&image.base)]
}

/// A digest as far as people read it.
fn short(digest: &str) -> String {
    match digest.split_once("sha256:") {
        Some((name, hash)) => format!("{name}sha256:{}", hash.chars().take(12).collect::<String>()),
        None => digest.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::PreparedImage;

    #[test]
    fn a_row_tells_what_was_done() {
        let image = PreparedImage {
            image: "refrain/prepared:1".to_owned(),
            base: format!("debian@sha256:{}", "0123456789abcdef".repeat(4)),
            prepared: Some("sha256:1".to_owned()),
            version: None,
            reused: false,
        };
        let shown = row(&ReadyHarness { harness: "h".to_owned(), image: Some(image) });
        assert_eq!(shown, ["h", "installed", "-", "refrain/prepared:1", "debian@sha256:0123456789ab"]);
        assert_eq!(row(&ReadyHarness { harness: "h".to_owned(), image: None })[1], "not needed");
    }
}
