//! What the program says when it cannot do what it was asked, and with which exit code.

use insta::assert_snapshot;

use crate::bed::{SOLVE, TestBed, play};

fn fails(bed: &TestBed, args: &[&str], code: i32) -> String {
    let ran = bed.run(args);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(code), ""), "{}", ran.stderr);
    ran.stderr
}

#[test]
fn a_run_file_that_is_not_there() {
    let bed = TestBed::new();
    bed.file("runs/nightly.yaml", "");
    assert_snapshot!(fails(&bed, &["run", "runs/nightli.yaml"], 2));
}

#[test]
fn a_run_file_with_several_mistakes_shows_all_of_them() {
    let bed = TestBed::with_play(&play(&[SOLVE]));
    bed.file("runs/demo.yaml", &TestBed::run_file("repeats: 0\nparalel_runs: 2\nbudget_usd: -1\n"));
    assert_snapshot!(fails(&bed, &["run", "runs/demo.yaml"], 2));
}

#[test]
fn a_store_that_is_not_there() {
    assert_snapshot!(fails(&TestBed::new(), &["results"], 4));
}

#[test]
fn a_store_that_is_no_database() {
    let bed = TestBed::with_play(&play(&[SOLVE]));
    bed.file(
        "refrain.db",
        "this is no database, but long enough to have a header of a hundred bytes or so, which SQLite reads",
    );
    assert_snapshot!(fails(&bed, &["run", "runs/demo.yaml", "--progress", "none"], 4));
}

#[test]
fn a_runtime_that_does_not_exist() {
    let bed = TestBed::with_play(&play(&[SOLVE]));
    let args = ["run", "runs/demo.yaml", "--set", "runtime=locl", "--progress", "none"];
    assert_snapshot!(fails(&bed, &args, 2));
}

#[test]
fn a_run_or_cell_that_does_not_exist() {
    let bed = TestBed::with_play(&play(&[SOLVE]));
    assert_eq!(bed.run(&["run", "runs/demo.yaml", "--progress", "none"]).code, Some(0));
    assert_snapshot!("unknown_run", fails(&bed, &["results", "dmeo"], 2));
    assert_snapshot!("unknown_cell", fails(&bed, &["show", "nothing"], 2));
    assert_snapshot!("unknown_attempt", fails(&bed, &["show", "greeting", "--attempt", "7"], 2));
}

#[test]
fn a_capped_run_with_a_model_that_has_no_price() {
    let bed = TestBed::with_play(&play(&[SOLVE]));
    let args = ["run", "runs/demo.yaml", "--set", "budget_usd=1", "--set", "models.0.name=nobody-knows-me"];
    assert_snapshot!(fails(&bed, &args, 2));
}

#[test]
fn an_unknown_option() {
    assert_snapshot!(fails(&TestBed::new(), &["run", "x.yaml", "--dry-rum"], 2));
}

#[test]
fn init_never_overwrites() {
    let bed = TestBed::new();
    bed.file("runs/starter.yaml", "mine\n");
    assert_snapshot!(fails(&bed, &["init"], 2));
    assert_eq!(std::fs::read_to_string(bed.path().join("runs/starter.yaml")).unwrap(), "mine\n");
}

#[test]
fn lines_of_the_log_have_colour_only_where_it_is_wanted() {
    let bed = TestBed::with_play(&play(&[SOLVE]));
    assert_eq!(bed.run(&["run", "runs/demo.yaml", "--progress", "none"]).code, Some(0));
    // What the run is started with cannot be kept where a folder is in the way.
    let kept = bed.started();
    std::fs::remove_file(&kept).expect("removed");
    std::fs::create_dir_all(kept.join("in-the-way")).expect("made");
    for (color, coloured) in [("never", false), ("auto", false), ("always", true)] {
        let ran = bed.run(&["--color", color, "run", "runs/demo.yaml", "--progress", "none"]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(ran.stderr.contains("will not know this run by its name"), "{}", ran.stderr);
        assert_eq!(ran.stderr.contains('\u{1b}'), coloured, "{color}: {:?}", ran.stderr);
    }
}
