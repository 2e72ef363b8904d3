//! `refrain export`: the sessions of a run as files that other programs read.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::ValueEnum;

use super::results::{find_run, open};
use super::trajectory::Sources;
use super::{Failed, Outcome, exit, output, show};
use crate::domain::name::external;
use crate::report::atif;
use crate::store::{ResultFilter, record_file};

/// Characters of a cell's id in the name of a file.
const READABLE: usize = 120;

/// Write the sessions of a run as trajectories, one file for each
///
/// Of each cell the last attempt. The logs that are stored are read again, by the adapters of today. Files of the same
/// names are replaced.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  refrain export\n  refrain export nightly --format jsonl --out trajectories/nightly\n  \
                        refrain export --cell fix-off-by-one__r1"
)]
pub(super) struct Args {
    /// The run; by default the latest
    run: Option<String>,
    /// The format: `atif` is the Agent Trajectory Interchange Format, `jsonl` the same with a line for each step
    #[arg(long, value_enum, default_value_t = Format::Atif, hide_possible_values = true)]
    format: Format,
    /// Only this cell: its id, or a part of it that only one cell has; may be given several times
    #[arg(long)]
    cell: Vec<String>,
    /// The folder to write to
    #[arg(long, value_name = "DIR", default_value = "trajectories")]
    out: PathBuf,
    /// The results database
    #[arg(long, default_value = "refrain.db", env = "REFRAIN_DB")]
    db: PathBuf,
}

/// A format of trajectories.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Atif,
    Jsonl,
}

pub(super) fn main(args: &Args) -> Outcome {
    let store = open(&args.db)?;
    let run = find_run(&store, args.run.as_deref())?;
    let rows = store.results(Some(&run), &ResultFilter::default()).wait()?;
    let mut cells: Vec<_> = rows.into_iter().map(|row| row.cell).collect();
    if !args.cell.is_empty() {
        let wanted = args.cell.iter().map(|cell| show::find_among(&cells, &run, cell));
        cells = wanted.collect::<Result<_, _>>()?;
        cells.sort();
        cells.dedup();
    }
    let sources = Sources::new(&args.db, &run)?;
    make_folder(&args.out)?;
    for cell in &cells {
        let record = show::read(&store, &run, cell, None)?;
        for (session, trajectory) in record.sessions.iter().zip(sources.of(&record)) {
            let stem = format!("{}.a{}.s{}", external(cell.as_str(), READABLE), record.attempt.number, session.index);
            let mut bytes = Vec::new();
            let name = match args.format {
                Format::Atif => {
                    atif::write_document(&trajectory, &mut bytes)?;
                    format!("{stem}.json")
                }
                Format::Jsonl => {
                    atif::write_lines(&trajectory, &mut bytes)?;
                    format!("{stem}.jsonl")
                }
            };
            let path = args.out.join(name);
            let failed = || format!("cannot write `{}`", path.display());
            record_file::write_atomic(&path, &bytes).with_context(failed).map_err(Failed::usage)?;
            output::write(&format!("{}\n", path.display()))?;
        }
    }
    Ok(exit::OK)
}

fn make_folder(path: &Path) -> Result<(), Failed> {
    std::fs::create_dir_all(path)
        .with_context(|| format!("cannot create the folder `{}`", path.display()))
        .map_err(Failed::usage)
}
