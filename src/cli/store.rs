//! `refrain store`: upkeep of the results database and the folder beside it.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use jiff::{SignedDuration, Timestamp};

use super::started::state_beside;
use super::{Failed, Outcome, exit, output};
use crate::clock::{Clock, SystemClock};
use crate::store::{CheckReport, Layout, Store, StoreError};

/// Look after the results database: check, backup, vacuum, gc, settle, rebuild
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  refrain store check\n  refrain store backup refrain-monday.db\n  \
                        refrain store gc --older-than 14 --dry-run\n  refrain store settle nightly\n  \
                        refrain store settle nightly fix-off-by-one__r1#2 --cost 0.25 --reason 'the invoice'\n\n\
                        Exit codes: 0 done, and for `check` sound; 2 usage; 4 the store cannot be read or written, or \
                        `check` found something")]
pub(super) enum Command {
    /// Check file, references, schema, money, and the records on disk; changes nothing
    Check {
        #[command(flatten)]
        place: Place,
        /// Print the findings as JSON
        #[arg(long)]
        json: bool,
    },
    /// Copy the database to a new file, also while runs work on it
    Backup {
        /// The new file; must not exist
        target: PathBuf,
        #[command(flatten)]
        place: Place,
    },
    /// Give space that is free inside the database back to the file system
    Vacuum {
        #[command(flatten)]
        place: Place,
    },
    /// Remove logs and diffs of attempts that a later one has superseded; records and results stay
    Gc {
        #[command(flatten)]
        place: Place,
        /// Only of attempts that ended more than so many days ago
        #[arg(long, value_name = "DAYS", default_value_t = 30)]
        older_than: u32,
        /// Show what would go, and remove nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Settle by hand what a run has spent without anybody knowing, or list it
    ///
    /// A start that was cut off by a dead host cost something that nobody knows, and the rest of its attempt's reservation
    /// counts against the cap. Say what it came to (`--cost`), or only free the cap (`--release`). Each settlement is an
    /// entry of the ledger with who, when and why.
    Settle(Box<super::settle::Args>),
    /// Import records on disk that the database lacks: into a new one, where it was lost
    Rebuild {
        #[command(flatten)]
        place: Place,
    },
}

/// Which store.
#[derive(Debug, clap::Args)]
pub(super) struct Place {
    /// The results database
    #[arg(long, default_value = "refrain.db", env = "REFRAIN_DB")]
    pub(super) db: PathBuf,
    /// The folder of records and logs; by default `.refrain` beside the database
    #[arg(long, value_name = "PATH")]
    state_dir: Option<PathBuf>,
}

impl Place {
    /// The places of its records and logs.
    pub(super) fn layout(&self) -> Layout {
        Layout::new(self.state_dir.clone().unwrap_or_else(|| state_beside(&self.db)))
    }

    /// Opens a store that must exist, for reading.
    pub(super) fn read(&self) -> Result<Store, Failed> {
        super::results::open(&self.db)
    }

    /// Opens a store that must exist, for writing: brings it up to date where it is older.
    pub(super) fn write(&self) -> Result<Store, Failed> {
        if self.db.exists() {
            return Ok(Store::open(&self.db)?);
        }
        self.read()
    }
}

pub(super) fn main(command: &Command) -> Outcome {
    match command {
        Command::Check { place, json } => check(place, *json),
        Command::Backup { target, place } => {
            let store = place.read()?;
            if target.exists() {
                let error = anyhow::anyhow!("`{}` exists already", target.display());
                return Err(Failed::usage(error).with_hint("name a file that does not exist"));
            }
            store.backup(target)?;
            output::write(&format!("copied to {} ({})\n", target.display(), size_of(target)))?;
            Ok(exit::OK)
        }
        Command::Vacuum { place } => {
            let store = place.write()?;
            let before = size_of(&place.db);
            store.vacuum()?;
            output::write(&format!("{}: {before} before, {} now\n", place.db.display(), size_of(&place.db)))?;
            Ok(exit::OK)
        }
        Command::Gc { place, older_than, dry_run } => gc(place, *older_than, *dry_run),
        Command::Settle(args) => super::settle::main(args),
        Command::Rebuild { place } => rebuild(place),
    }
}

fn check(place: &Place, json: bool) -> Outcome {
    let report = place.read()?.check(Some(&place.layout())).wait()?;
    if json {
        output::write_json(&serde_json::json!({
            "schema": 1,
            "ok": report.is_clean(),
            "integrity": report.integrity,
            "foreign_keys": report.foreign_keys,
            "schema_objects": report.schema,
            "records": report.records,
            "money": report.money,
        }))?;
    } else {
        for (what, finding) in findings(&report) {
            let finding = crate::redact::printable(finding).replace('\n', " ");
            output::write(&format!("{what:>12} {finding}\n"))?;
        }
        if report.is_clean() {
            output::write(&format!("{}: sound\n", place.db.display()))?;
        }
    }
    if report.is_clean() {
        return Ok(exit::OK);
    }
    let count = findings(&report).count();
    let failed = Failed::usage(anyhow::anyhow!("`{}` has {count} finding(s)", place.db.display()));
    Err(Failed { code: exit::STORE, ..failed }.with_hint(advice(&report)))
}

fn findings(report: &CheckReport) -> impl Iterator<Item = (&'static str, &String)> {
    let named = |what: &'static str, list| std::iter::repeat(what).zip(list);
    named("file", report.integrity.iter())
        .chain(named("reference", report.foreign_keys.iter()))
        .chain(named("schema", report.schema.iter()))
        .chain(named("record", report.records.iter()))
        .chain(named("money", report.money.iter()))
}

fn advice(report: &CheckReport) -> &'static str {
    let only_records = CheckReport { records: Vec::new(), ..report.clone() }.is_clean() && !report.records.is_empty();
    if only_records {
        "a crash may have left them: the next `refrain run` imports those of its run, `refrain store rebuild` all"
    } else {
        "keep a copy of the file and those beside it; then restore a backup, or move the file away and give \
         `refrain store rebuild`"
    }
}

fn gc(place: &Place, days: u32, dry_run: bool) -> Outcome {
    let store = place.read()?;
    let before = SystemClock::new()
        .now()
        .checked_sub(SignedDuration::from_hours(24 * i64::from(days)))
        .unwrap_or(Timestamp::MIN);
    let found = store.collect_garbage(&place.layout(), before, !dry_run)?;
    for garbage in &found {
        output::write(&format!("{:>9}  {}\n", bytes(garbage.bytes), garbage.attempt))?;
    }
    let total = bytes(found.iter().map(|garbage| garbage.bytes).sum());
    let what = if dry_run { "would go" } else { "gone" };
    output::write(&format!("{total} of {} superseded attempt(s) {what}; their records stay\n", found.len()))?;
    Ok(exit::OK)
}

fn rebuild(place: &Place) -> Outcome {
    let layout = place.layout();
    if !layout.runs().is_dir() {
        let error = anyhow::anyhow!("there are no run records below `{}`", layout.root().display());
        return Err(
            Failed { code: exit::STORE, ..Failed::usage(error) }.with_hint("name the folder with `--state-dir`")
        );
    }
    let recovered = Store::open(&place.db)?.rebuild(&layout).wait()?;
    for error in &recovered.refused {
        super::run::eprint_line(&format!("  left out: {}", cause(error)));
    }
    output::write(&format!("{} record(s) imported, {} left out\n", recovered.imported.len(), recovered.refused.len()))?;
    Ok(if recovered.refused.is_empty() { exit::OK } else { exit::STORE })
}

fn cause(error: &StoreError) -> String {
    crate::redact::printable(&error.to_string()).replace('\n', " ")
}

fn size_of(path: &Path) -> String {
    std::fs::metadata(path).map_or_else(|_| "?".to_owned(), |metadata| bytes(metadata.len()))
}

/// Shows a size with one decimal.
fn bytes(count: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    for (unit, name) in UNITS {
        if count >= unit {
            return format!("{}.{} {name}", count / unit, count % unit * 10 / unit);
        }
    }
    format!("{count} B")
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn sizes_read_well() {
        let shown: Vec<_> = [0, 999, 1_000, 1_950_000, 12_345_678_901].map(bytes).to_vec();
        assert_eq!(shown, ["0 B", "999 B", "1.0 kB", "1.9 MB", "12.3 GB"]);
    }
}
