//! Kills and full disks: what was answered for is there afterwards.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Command;

use refrain::domain::ExitClass;
use refrain::store::{ResultExtra, ResultFilter, Store, StoreError};

use crate::opening::{child, child_path};
use crate::sample::{attempt, database, meta, open, record, run, session, start};

#[test]
fn a_killed_writer_loses_nothing_that_it_was_answered_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = database(&folder);
    let mut answered = BTreeSet::new();
    for round in 0..12 {
        let mut writer = child("crash::child_finishes_cells", &path);
        let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines();
        // Another moment in each round; the kill falls into the middle of some later write.
        for line in lines.by_ref().map_while(Result::ok).filter(|line| line.starts_with("cell-")).take(3 + round * 2) {
            answered.insert(line);
        }
        writer.kill().unwrap();
        writer.wait().unwrap();
        // What was printed before the kill was answered for as well.
        answered.extend(lines.map_while(Result::ok).filter(|line| line.starts_with("cell-") && line.ends_with('.')));

        let store = open(&folder);
        let decided = store.decided(&run("nightly")).wait().unwrap();
        for line in &answered {
            let id = line.trim_end_matches('.');
            assert!(decided.contains_key(&refrain::domain::CellId::from_stored(id)), "{id} is lost");
        }
        let report = store.check(None).wait().unwrap();
        assert!(report.is_clean(), "{report:?}");
        let results = store.results(Some(&run("nightly")), &ResultFilter::default()).wait().unwrap();
        assert_eq!(results.len(), decided.len(), "a result and its state are committed together");
        let totals = store.ledger_totals(&run("nightly")).wait().unwrap();
        let expected = i64::try_from(results.len()).unwrap() * 1_000;
        assert_eq!(totals.total.get(), expected, "money and results are committed together");
    }
    assert!(answered.len() > 100);
}

#[test]
#[ignore = "runs as a child of another test"]
fn child_finishes_cells() {
    let store = Store::open(&child_path()).expect("opens");
    let process = std::process::id();
    for number in 0.. {
        let name = format!("cell-{process}-{number}");
        let id = attempt("nightly", &name, 1);
        store.begin_attempt(&start(&id)).wait().unwrap();
        let finished = record(&id, ExitClass::Pass, vec![session(1, Some(1_000))]);
        store
            .finish_attempt(&finished, ResultExtra { diff: Some(vec![b'x'; 20_000]), ..ResultExtra::default() })
            .wait()
            .unwrap();
        writeln!(std::io::stdout(), "{name}.").unwrap();
    }
}

/// A small file system in memory, unmounted at the end; `None` where this process may not mount.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(size: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let options = format!("size={size}");
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(folder.path()).output();
        mount.is_ok_and(|output| output.status.success()).then_some(Self(folder))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(self.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()), "unmounts");
    }
}

#[test]
fn a_full_disk_is_said_and_costs_nothing_that_was_kept() {
    let Some(disk) = SmallDisk::mount("3m") else {
        eprintln!("SKIPPED a_full_disk: this process may not mount a file system");
        return;
    };
    let path = disk.path().join("refrain.db");
    let store = Store::open(&path).expect("opens");
    store.begin_run(&meta("nightly", 1_000)).wait().unwrap();
    let diff = vec![b'x'; 100_000];
    let mut kept = 0;
    let error = loop {
        let id = attempt("nightly", &format!("cell-{kept}"), 1);
        let finished = record(&id, ExitClass::Pass, Vec::new());
        match store.finish_attempt(&finished, ResultExtra { diff: Some(diff.clone()), ..ResultExtra::default() }).wait()
        {
            Ok(_) => kept += 1,
            Err(error) => break error,
        }
        assert!(kept < 1_000, "the disk fills up");
    };
    assert!(matches!(error, StoreError::Full { .. }) && error.is_full(), "{error:?}");
    assert!(kept > 3);
    drop(store);

    // Space is made, and the same run goes on.
    let grown = Command::new("mount").args(["-o", "remount,size=20m"]).arg(disk.path()).status().unwrap();
    assert!(grown.success());
    let store = Store::open(&path).expect("opens again");
    assert_eq!(store.decided(&run("nightly")).wait().unwrap().len(), kept);
    assert!(store.check(None).wait().unwrap().is_clean());
    let id = attempt("nightly", &format!("cell-{kept}"), 1);
    store.finish_attempt(&record(&id, ExitClass::Pass, Vec::new()), ResultExtra::default()).wait().unwrap();
    assert_eq!(store.decided(&run("nightly")).wait().unwrap().len(), kept + 1);
}

#[test]
fn a_disk_too_full_for_a_new_database_is_said() {
    let Some(disk) = SmallDisk::mount("64k") else {
        eprintln!("SKIPPED a_disk_too_full: this process may not mount a file system");
        return;
    };
    std::fs::write(disk.path().join("ballast"), vec![1u8; 40 * 1024]).unwrap();
    let error = Store::open(&disk.path().join("refrain.db")).expect_err("refused");
    assert!(error.is_full(), "{error:?}");
}
