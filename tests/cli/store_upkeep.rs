//! `refrain store`: check, backup, vacuum, gc, rebuild, on sound files and on all kinds of others.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use rusqlite::Connection;

use crate::bed::{MISS, SOLVE, TestBed, play, skipped};

/// A project whose run has been carried out.
fn project() -> TestBed {
    let bed = TestBed::with_play(&play(&[SOLVE]));
    let ran = bed.run(&["run", "runs/demo.yaml", "--progress", "none"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    bed
}

fn raw(bed: &TestBed) -> Connection {
    Connection::open(bed.path().join("refrain.db")).expect("opens")
}

#[test]
fn a_sound_store_is_called_sound() {
    let bed = project();
    let ran = bed.run(&["store", "check"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "refrain.db: sound\n"), "{ran:?}");
    let json: serde_json::Value = serde_json::from_str(&bed.run(&["store", "check", "--json"]).stdout).expect("JSON");
    assert_eq!((&json["ok"], &json["money"]), (&true.into(), &serde_json::json!([])));
}

#[test]
fn what_is_wrong_is_named_and_the_code_tells() {
    let bed = project();
    raw(&bed).execute_batch("UPDATE ledger_sums SET billable_micros = billable_micros + 1").expect("changed");
    let ran = bed.run(&["store", "check"]);
    assert_eq!(ran.code, Some(4));
    assert_eq!(ran.stdout, "       money the sums of run demo\n");
    assert!(ran.stderr.contains("has 1 finding(s)") && ran.stderr.contains("restore a backup"), "{}", ran.stderr);
    let json: serde_json::Value = serde_json::from_str(&bed.run(&["store", "check", "--json"]).stdout).expect("JSON");
    assert_eq!(json["ok"], false);
}

#[test]
fn a_backup_can_be_read_and_overwrites_nothing() {
    let bed = project();
    let ran = bed.run(&["store", "backup", "copy.db"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.starts_with("copied to copy.db ("), "{}", ran.stdout);
    let row = bed.run(&["results", "--db", "copy.db", "--json"]);
    assert!(row.stdout.contains("\"success\": true"), "{row:?}");
    let again = bed.run(&["store", "backup", "copy.db"]);
    assert_eq!(again.code, Some(2), "{again:?}");
    let said = "error: `copy.db` exists already\n\nhint: name a file that does not exist\n";
    assert_eq!(again.stderr, said);
}

#[test]
fn vacuum_gives_space_back() {
    let bed = project();
    raw(&bed)
        .execute_batch("CREATE TABLE filler (x); INSERT INTO filler VALUES (zeroblob(3000000)); DROP TABLE filler")
        .expect("filled");
    let ran = bed.run(&["store", "vacuum"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(fs::metadata(bed.path().join("refrain.db")).expect("there").len() < 1_000_000, "{}", ran.stdout);
    assert_eq!(bed.run(&["store", "check"]).code, Some(0));
}

#[test]
fn gc_removes_what_a_later_attempt_has_superseded() {
    let bed = TestBed::with_play(&play(&[MISS]));
    for _ in 0..2 {
        let single = [
            "run",
            "single",
            "greeting",
            "--harness",
            "scripted",
            "--model",
            "scripted-small",
            "--config",
            "play=runs/demo.play.yaml",
        ];
        let ran = bed.run(&single);
        assert!(ran.code == Some(1), "{ran:?}");
    }
    let db = ["--db", "refrain.db"];
    let runs = bed.path().join(".refrain/runs");
    let attempts = |file: &str| {
        let found = Command::new("find").arg(&runs).args(["-name", file]).output().expect("find runs").stdout;
        String::from_utf8(found).expect("text").lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!((attempts("run_record.json").len(), attempts("diff.patch").len()), (2, 2), "{:?}", attempts("*"));
    let young = bed.run(&[&["store", "gc"], &db[..]].concat());
    assert!(young.stdout.contains("0 B of 0 superseded attempt(s) gone"), "{young:?}");
    let dry = bed.run(&[&["store", "gc", "--older-than", "0", "--dry-run"], &db[..]].concat());
    assert_eq!(dry.code, Some(0), "{dry:?}");
    assert!(dry.stdout.contains("of 1 superseded attempt(s) would go; their records stay"), "{}", dry.stdout);
    assert_eq!(attempts("diff.patch").len(), 2);
    let gone = bed.run(&[&["store", "gc", "--older-than", "0"], &db[..]].concat());
    assert!(gone.stdout.contains("of 1 superseded attempt(s) gone"), "{}", gone.stdout);
    assert_eq!((attempts("run_record.json").len(), attempts("diff.patch").len()), (2, 1));
    assert!(attempts("diff.patch")[0].contains("/a2/"), "{:?}", attempts("*"));
    assert_eq!(bed.run(&["store", "check"]).code, Some(0));
}

#[test]
fn a_lost_database_is_rebuilt() {
    let bed = project();
    let before = bed.results();
    fs::remove_file(bed.path().join("refrain.db")).expect("removed");
    let ran = bed.run(&["store", "rebuild"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "1 record(s) imported, 0 left out\n"), "{ran:?}");
    raw(&bed).execute_batch("SELECT 1").expect("a database");
    let db = Connection::open(bed.path().join("refrain.db")).expect("opens");
    let solved: bool = db.query_row("SELECT success FROM run_results", [], |row| row.get(0)).expect("a row");
    assert_eq!(before[0]["success"], solved);
}

#[test]
fn a_database_that_cannot_be_used_is_told_apart_and_left_as_it_is() {
    for (spoil, expected) in
        [("newer", "has schema 999, this Refrain"), ("damaged", "is damaged"), ("foreign", "is not a SQLite database")]
    {
        let bed = project();
        let path = bed.path().join("refrain.db");
        match spoil {
            "newer" => raw(&bed).pragma_update(None, "user_version", 999).expect("stamped"),
            "damaged" => {
                raw(&bed).execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").expect("one file");
                let mut bytes = fs::read(&path).expect("read");
                bytes[100..4096].fill(0xa5);
                fs::write(&path, bytes).expect("written");
            }
            _ => fs::write(&path, "name: demo\n").expect("written"),
        }
        let before = fs::read(&path).expect("read");
        for command in [&["check"] as &[&str], &["vacuum"], &["backup", "copy.db"], &["gc"], &["rebuild"]] {
            let ran = bed.run(&[&["store"], command].concat());
            assert_eq!(ran.code, Some(4), "{spoil} {command:?}: {ran:?}");
            assert!(
                ran.stderr.contains(expected) && ran.stderr.contains("hint"),
                "{spoil} {command:?}: {}",
                ran.stderr
            );
        }
        assert_eq!(fs::read(&path).expect("read"), before, "{spoil}");
        assert!(!bed.path().join("copy.db").exists());
    }
}

#[test]
fn a_read_only_file_can_be_checked_and_not_changed() {
    let bed = project();
    let path = bed.path().join("refrain.db");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).expect("set");
    assert_eq!(bed.run(&["store", "check"]).code, Some(0));
    let ran = bed.run(&["store", "vacuum"]);
    assert_eq!(ran.code, Some(4));
    assert!(ran.stderr.contains("is read-only"), "{}", ran.stderr);
}

#[test]
fn a_locked_database_is_said_to_be_locked() {
    let bed = project();
    let holder = raw(&bed);
    holder.execute_batch("BEGIN EXCLUSIVE").expect("locked");
    let ran = bed.run(&["store", "vacuum"]);
    assert_eq!(ran.code, Some(4), "{ran:?}");
    assert!(ran.stderr.contains("is locked by another process"), "{}", ran.stderr);
    // Reading does not wait for whoever writes.
    assert_eq!(bed.run(&["store", "check"]).code, Some(0));
    drop(holder);
    assert_eq!(bed.run(&["store", "vacuum"]).code, Some(0));
}

#[test]
fn a_backup_to_a_full_disk_leaves_nothing_half() {
    let bed = project();
    let disk = tempfile::tempdir().expect("a folder");
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(disk.path()).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        skipped("a_backup_to_a_full_disk: this process may not mount a file system");
        return;
    }
    let target = disk.path().join("copy.db");
    let ran = bed.run(&["store", "backup", &target.display().to_string()]);
    let left: Vec<_> = fs::read_dir(disk.path()).expect("listed").collect();
    let unmounted = Command::new("umount").arg("-l").arg(disk.path()).status();
    assert!(unmounted.is_ok_and(|status| status.success()), "unmounts");
    assert_eq!(ran.code, Some(4), "{ran:?}");
    assert!(ran.stderr.contains("no space is left"), "{}", ran.stderr);
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn the_canary_finds_no_key_in_anything_that_a_run_leaves() {
    let bed = TestBed::new();
    let ran = bed.run(&["doctor", "--canary", "--json"]);
    let found: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(
        (ran.code, &found["leaks"], &found["unproven"]),
        (Some(0), &serde_json::json!([]), &serde_json::json!([]))
    );
    // It was there to be found: in all of these a marker has taken its place.
    let markers = found["markers"].as_array().expect("a list");
    for place in
        ["run_results.diff", "run_results.test_output", "sessions.label", "sessions.phase", "transitions.reason"]
    {
        assert!(markers.iter().any(|marker| marker == place), "{place}: {markers:?}");
    }
    assert!(found["files"].as_u64() > Some(20) && found["columns"].as_u64() > Some(100), "{found}");
    assert_eq!(fs::read_dir(bed.path()).expect("listed").count(), 0, "it works in a folder of its own");
}
