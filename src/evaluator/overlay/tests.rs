use super::*;

struct Bed {
    dir: tempfile::TempDir,
}

impl Bed {
    fn new() -> Self {
        let bed = Self { dir: tempfile::tempdir().expect("temp dir") };
        for name in ["tree", "base", "hidden", "outside"] {
            fs::create_dir(bed.at(name)).expect("created");
        }
        bed
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn write(&self, path: &str, content: &str) -> &Self {
        let full = self.at(path);
        fs::create_dir_all(full.parent().expect("has a parent")).expect("created");
        fs::write(full, content).expect("written");
        self
    }

    fn link(&self, path: &str, target: &str) -> &Self {
        symlink(self.at(target), self.at(path)).expect("linked");
        self
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.at(path)).ok()
    }

    fn overlay(&self) -> Overlaid {
        let hidden = HiddenTests::Overlay { path: self.at("hidden") };
        lay(&hidden, &self.at("tree"), Some(&self.at("base"))).expect("laid")
    }

    fn patch(&self, text: &str) -> Result<Overlaid, EvaluationError> {
        lay(&HiddenTests::Patch { patch: text.to_owned() }, &self.at("tree"), Some(&self.at("base")))
    }
}

fn paths(names: &[&str]) -> Vec<PathBuf> {
    names.iter().map(PathBuf::from).collect()
}

#[test]
fn a_folder_is_laid_over_and_the_rest_stays() {
    let bed = Bed::new();
    bed.write("tree/src/a.py", "work").write("tree/tests/test_a.py", "weakened").write("tree/tests/own.py", "own");
    bed.write("hidden/tests/test_a.py", "strict").write("hidden/tests/deep/run.sh", "#!/bin/sh");
    fs::set_permissions(bed.at("hidden/tests/deep/run.sh"), fs::Permissions::from_mode(0o755)).expect("mode");
    let done = bed.overlay();
    assert_eq!(bed.read("tree/tests/test_a.py").as_deref(), Some("strict"));
    assert_eq!(bed.read("tree/tests/own.py").as_deref(), Some("own"));
    assert_eq!(bed.read("tree/src/a.py").as_deref(), Some("work"));
    let mode = fs::metadata(bed.at("tree/tests/deep/run.sh")).expect("there").permissions().mode();
    assert_eq!(mode & 0o111, 0o111);
    assert_eq!(done.wiped, paths(&["tests/test_a.py"]));
    assert_eq!(done.written, paths(&["tests/deep/run.sh", "tests/test_a.py"]));
}

#[test]
fn a_symlinked_folder_is_replaced_and_its_target_untouched() {
    let bed = Bed::new();
    bed.write("outside/test_a.py", "host").link("tree/tests", "outside").write("hidden/tests/test_a.py", "strict");
    let done = bed.overlay();
    assert_eq!(bed.read("outside/test_a.py").as_deref(), Some("host"));
    assert_eq!(bed.read("tree/tests/test_a.py").as_deref(), Some("strict"));
    assert!(!fs::symlink_metadata(bed.at("tree/tests")).expect("there").is_symlink());
    assert_eq!(done.wiped, paths(&["tests"]));
}

#[test]
fn a_symlinked_file_and_a_folder_in_its_place_go() {
    let bed = Bed::new();
    bed.write("outside/victim", "host").write("hidden/a.py", "A").write("hidden/b.py", "B").write("tree/b.py/x", "x");
    bed.link("tree/a.py", "outside/victim");
    bed.overlay();
    assert_eq!(bed.read("outside/victim").as_deref(), Some("host"));
    assert_eq!((bed.read("tree/a.py").as_deref(), bed.read("tree/b.py").as_deref()), (Some("A"), Some("B")));
}

#[test]
fn a_folder_without_rights_is_no_shield() {
    let bed = Bed::new();
    bed.write("tree/tests/test_a.py/deep/x", "x").write("hidden/tests/test_a.py", "strict");
    for locked in ["tree/tests/test_a.py/deep", "tree/tests/test_a.py", "tree/tests"] {
        fs::set_permissions(bed.at(locked), fs::Permissions::from_mode(0o500)).expect("mode");
    }
    bed.overlay();
    assert_eq!(bed.read("tree/tests/test_a.py").as_deref(), Some("strict"));
}

#[test]
fn what_steers_the_test_program_is_as_the_baseline_has_it() {
    let bed = Bed::new();
    bed.write("hidden/tests/unit/test_a.py", "strict");
    bed.write("base/tests/conftest.py", "honest").write("base/pytest.ini", "[pytest]");
    bed.write("tree/tests/conftest.py", "skip all").write("tree/conftest.py", "skip all");
    bed.write("tree/tests/unit/conftest.py", "skip all").write("tree/tests/unit/sitecustomize.py", "exit(0)");
    bed.write("tree/pytest.py", "exit(0)").write("tree/unittest/__init__.py", "exit(0)");
    bed.write("outside/__init__.py", "exit(0)").link("tree/_pytest", "outside");
    bed.write("tree/other/conftest.py", "not on the way").write("tree/setup.cfg", "theirs");
    bed.overlay();
    assert_eq!(bed.read("tree/tests/conftest.py").as_deref(), Some("honest"));
    assert_eq!(bed.read("tree/pytest.ini").as_deref(), Some("[pytest]"));
    for gone in ["conftest.py", "tests/unit/conftest.py", "tests/unit/sitecustomize.py", "pytest.py", "_pytest"] {
        assert!(fs::symlink_metadata(bed.at("tree").join(gone)).is_err(), "{gone}");
    }
    assert_eq!(bed.read("tree/unittest/__init__.py"), None);
    assert_eq!(bed.read("outside/__init__.py").as_deref(), Some("exit(0)"));
    assert_eq!(bed.read("tree/other/conftest.py").as_deref(), Some("not on the way"));
    assert_eq!(bed.read("tree/setup.cfg").as_deref(), Some("theirs"));
}

#[test]
fn the_tests_own_conftest_wins() {
    let bed = Bed::new();
    bed.write("hidden/tests/conftest.py", "hidden").write("base/tests/conftest.py", "base");
    bed.write("tree/tests/conftest.py", "agent");
    bed.overlay();
    assert_eq!(bed.read("tree/tests/conftest.py").as_deref(), Some("hidden"));
}

#[test]
fn a_repository_of_the_test_program_itself_keeps_the_agents_work() {
    let bed = Bed::new();
    bed.write("hidden/testing/test_a.py", "t").write("base/_pytest/__init__.py", "old");
    bed.write("tree/_pytest/__init__.py", "the fix");
    bed.overlay();
    assert_eq!(bed.read("tree/_pytest/__init__.py").as_deref(), Some("the fix"));
}

const NEW_TEST: &str = "--- /dev/null\n+++ b/tests/test_new.py\n@@ -0,0 +1 @@\n+strict\n";

#[test]
fn a_patch_never_meets_what_the_agent_put_in_its_place() {
    for obstacle in ["file", "folder", "link", "parent link", "parent file"] {
        let bed = Bed::new();
        bed.write("outside/test_new.py", "host");
        match obstacle {
            "file" => bed.write("tree/tests/test_new.py", "mine"),
            "folder" => bed.write("tree/tests/test_new.py/x", "mine"),
            "link" => bed.write("tree/tests/x", "").link("tree/tests/test_new.py", "outside/test_new.py"),
            "parent link" => bed.link("tree/tests", "outside"),
            _ => bed.write("tree/tests", "a file"),
        };
        bed.patch(NEW_TEST).expect("laid");
        assert_eq!(bed.read("tree/tests/test_new.py").as_deref(), Some("strict\n"), "{obstacle}");
        assert_eq!(bed.read("outside/test_new.py").as_deref(), Some("host"), "{obstacle}");
    }
}

const CHANGE: &str = "--- a/t.py\n+++ b/t.py\n@@ -1,2 +1,2 @@\n-one\n+ONE\n two\n";

#[test]
fn a_changed_file_starts_from_the_baseline() {
    let bed = Bed::new();
    bed.write("base/t.py", "one\ntwo\n").write("tree/t.py", "agent's\n");
    bed.patch(CHANGE).expect("laid");
    assert_eq!(bed.read("tree/t.py").as_deref(), Some("ONE\ntwo\n"));
    // The agent deleted it: all the same.
    fs::remove_file(bed.at("tree/t.py")).expect("removed");
    bed.patch(CHANGE).expect("laid");
    assert_eq!(bed.read("tree/t.py").as_deref(), Some("ONE\ntwo\n"));
}

#[test]
fn without_a_baseline_the_tree_is_the_start() {
    let bed = Bed::new();
    bed.write("tree/t.py", "zero\none\ntwo\n");
    lay(&HiddenTests::Patch { patch: CHANGE.to_owned() }, &bed.at("tree"), None).expect("laid");
    assert_eq!(bed.read("tree/t.py").as_deref(), Some("zero\nONE\ntwo\n"));
}

#[test]
fn a_patch_that_does_not_fit_says_so_and_changes_nothing() {
    let bed = Bed::new();
    bed.write("base/t.py", "other\n").write("tree/t.py", "agent's\n");
    let error = bed.patch(CHANGE).expect_err("refused").to_string();
    assert_eq!(error, "the hidden tests do not fit: the hunk at line 1 of `t.py` does not fit the baseline");
    let error = bed.patch(&CHANGE.replace("t.py", "none.py")).expect_err("refused").to_string();
    assert!(error.contains("changes `none.py`, which the baseline does not have"), "{error}");
    assert_eq!(bed.read("tree/t.py").as_deref(), Some("agent's\n"));
}

#[test]
fn deletions_and_renames_are_laid_over_too() {
    let bed = Bed::new();
    bed.write("base/gone.py", "x\n")
        .write("base/old.py", "y\n")
        .write("tree/gone.py", "x\n")
        .write("tree/old.py", "z\n");
    bed.patch(
        "diff --git a/gone.py b/gone.py\ndeleted file mode 100644\n--- a/gone.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n\
         diff --git a/old.py b/new.py\nsimilarity index 100%\nrename from old.py\nrename to new.py\n",
    )
    .expect("laid");
    assert_eq!((bed.read("tree/gone.py"), bed.read("tree/old.py")), (None, None));
    assert_eq!(bed.read("tree/new.py").as_deref(), Some("y\n"));
}

#[test]
fn links_of_the_tests_stay_inside() {
    let bed = Bed::new();
    bed.write("hidden/tests/data.txt", "d");
    symlink("data.txt", bed.at("hidden/tests/alias")).expect("linked");
    bed.overlay();
    assert_eq!(fs::read_link(bed.at("tree/tests/alias")).expect("a link"), Path::new("data.txt"));
    for target in ["/etc/hostname", "../../etc/hostname"] {
        let bed = Bed::new();
        bed.write("hidden/tests/data.txt", "d");
        symlink(target, bed.at("hidden/tests/bad")).expect("linked");
        let hidden = HiddenTests::Overlay { path: bed.at("hidden") };
        let error = lay(&hidden, &bed.at("tree"), None).expect_err("refused").to_string();
        assert!(error.contains("leads out of the workspace"), "{error}");
    }
}

#[test]
fn an_empty_or_missing_folder_is_an_error() {
    let bed = Bed::new();
    let lay_from = |name: &str| lay(&HiddenTests::Overlay { path: bed.at(name) }, &bed.at("tree"), None);
    assert!(matches!(lay_from("hidden"), Err(EvaluationError::Overlay(_))));
    assert!(matches!(lay_from("nowhere"), Err(EvaluationError::File { .. })));
}

#[test]
fn staging_holds_what_was_written_and_nothing_else() {
    let bed = Bed::new();
    bed.write("tree/src/a.py", "work").write("hidden/tests/run.sh", "#!/bin/sh");
    fs::set_permissions(bed.at("hidden/tests/run.sh"), fs::Permissions::from_mode(0o755)).expect("mode");
    let done = bed.overlay();
    stage(&done, &bed.at("tree"), &bed.at("staging")).expect("staged");
    assert_eq!(bed.read("staging/tests/run.sh").as_deref(), Some("#!/bin/sh"));
    assert_eq!(fs::metadata(bed.at("staging/tests/run.sh")).expect("there").permissions().mode() & 0o111, 0o111);
    assert_eq!(fs::read_dir(bed.at("staging")).expect("read").count(), 1);
}

#[test]
fn looking_up_follows_no_link() {
    let bed = Bed::new();
    bed.write("outside/x", "x").link("tree/dir", "outside").write("tree/real/f", "f");
    bed.link("tree/file", "outside/x");
    let tree = bed.at("tree");
    assert!(entry(&tree, Path::new("real/f")).is_some_and(|metadata| metadata.is_file()));
    assert!(entry(&tree, Path::new("dir/x")).is_none());
    assert!(entry(&tree, Path::new("file")).is_some_and(|metadata| metadata.is_symlink()));
    assert!(entry(&tree, Path::new("../outside/x")).is_none());
    assert!(entry(&tree, Path::new("real/f/deeper")).is_none());
}
