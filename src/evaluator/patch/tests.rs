use std::process::Command;

use test_case::test_case;

use super::*;

fn one(patch: &str) -> FilePatch {
    let mut files = parse(patch).expect("valid");
    assert_eq!(files.len(), 1);
    files.remove(0)
}

#[test]
fn a_new_file_is_its_added_lines() {
    let file = one("diff --git a/tests/t.py b/tests/t.py\nnew file mode 100755\nindex 0000000..1\n--- /dev/null\n\
                    +++ b/tests/t.py\n@@ -0,0 +1,2 @@\n+one\n+two\n\\ No newline at end of file\n");
    assert_eq!((file.old.as_deref(), file.new.as_deref()), (None, Some(Path::new("tests/t.py"))));
    assert_eq!(file.mode, Some(Mode::Executable));
    assert_eq!(file.apply(b"").expect("applies"), b"one\ntwo");
}

#[test]
fn a_hunk_is_found_where_its_lines_are() {
    let file = one("--- a/f\n+++ b/f\n@@ -2,2 +2,3 @@ context\n b\n+new\n c\n");
    assert_eq!(file.apply(b"a\nb\nc\nd\n").expect("applies"), b"a\nb\nnew\nc\nd\n");
    assert_eq!(file.apply(b"0\n0\n0\na\nb\nc\n").expect("applies"), b"0\n0\n0\na\nb\nnew\nc\n");
    let error = file.apply(b"a\nb\nX\n").expect_err("does not fit");
    assert_eq!(error, PatchError::Mismatch { path: "f".to_owned(), line: 2 });
    assert!(file.apply(b"").is_err());
}

#[test]
fn the_nearest_of_several_places_wins() {
    let file = one("--- a/f\n+++ b/f\n@@ -5 +5 @@\n-x\n+y\n");
    assert_eq!(file.apply(b"x\n1\n2\n3\nx\n4\nx\n").expect("applies"), b"x\n1\n2\n3\ny\n4\nx\n");
}

#[test]
fn lines_inside_a_hunk_may_look_like_headers() {
    let file = one("--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n--- a/old\n+++ b/new\n \n");
    assert_eq!(file.apply(b"-- a/old\n\n").expect("applies"), b"++ b/new\n\n");
}

#[test]
fn deletions_renames_and_modes() {
    let text = "From 1234 Mon Sep 17\nSubject: tests\n\n---\n f | 1 +\n\n\
                diff --git a/gone b/gone\ndeleted file mode 100644\nindex 1..0\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n\
                diff --git a/old b/new\nsimilarity index 100%\nrename from old\nrename to new\n\
                diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n-- \n2.40\n";
    let files = parse(text).expect("valid");
    let names: Vec<_> = files.iter().map(|file| (file.old.clone(), file.new.clone())).collect();
    let path = |name: &str| Some(PathBuf::from(name));
    assert_eq!(names, [(path("gone"), None), (path("old"), path("new")), (path("run.sh"), path("run.sh"))]);
    assert_eq!(files[2].mode, Some(Mode::Executable));
    assert_eq!(files[1].apply(b"same\n").expect("applies"), b"same\n");
}

#[test_case("--- a/../../etc/passwd\n+++ b/../../etc/passwd\n@@ -1 +1 @@\n-a\n+b\n"; "parent")]
#[test_case("--- /dev/null\n+++ /etc/cron.d/x\n@@ -0,0 +1 @@\n+b\n"; "absolute")]
#[test_case("diff --git a/x b/x\nrename from x\nrename to ../x\n"; "rename")]
#[test_case("--- /dev/null\n+++ b/\n@@ -0,0 +1 @@\n+b\n"; "no name")]
fn paths_stay_inside(patch: &str) {
    assert!(matches!(parse(patch), Err(PatchError::Outside(_))), "{:?}", parse(patch));
}

#[test_case("", "no file was found"; "empty")]
#[test_case("just text\n", "no file was found"; "text")]
#[test_case("--- a/f\n+++ b/f\n@@ -1,3 +1,1 @@\n a\n", "ends inside a hunk"; "cut")]
#[test_case("--- a/f\n+++ b/f\n@@ -1 +1 @@\n a\n@@ nonsense\n", "no hunk header"; "header")]
#[test_case("--- a/f\n+++ b/f\n@@ -1 +1,2 @@\n a\n-b\n", "more lines than its header"; "count")]
#[test_case("--- a/f\n+++ b/f\n@@ -1 +1 @@\n*a\n", "starts with"; "sign")]
#[test_case("diff --git a/f b/f\nindex 1..2\nGIT binary patch\nliteral 1\n", "binary files"; "binary")]
#[test_case("diff --git a/f b/f\nnew file mode 160000\n", "mode `160000`"; "submodule")]
fn what_cannot_be_read_says_why(patch: &str, expected: &str) {
    let error = parse(patch).expect_err("refused").to_string();
    assert!(error.contains(expected), "{error}");
}

/// What git itself writes and applies is the measure.
#[test]
fn agrees_with_git() {
    let dir = tempfile::tempdir().expect("temp dir");
    let git = |args: &[&str]| {
        let out = Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@t", "-c", "core.autocrlf=false"])
            .args(args)
            .current_dir(dir.path())
            .output()
            .expect("git runs");
        assert!(out.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).expect("text")
    };
    let long = (1..=60).map(|n| format!("line {n}\n")).collect::<Vec<_>>().concat();
    let write = |name: &str, content: &str| std::fs::write(dir.path().join(name), content).expect("written");
    git(&["init", "-q"]);
    write("long.txt", &long);
    write("täst \"q\".txt", "a\nb\n");
    write("name with blanks", "x\n");
    write("crlf.txt", "a\r\nb\r\n");
    git(&["add", "-A"]);
    git(&["commit", "-qm", "base"]);
    let base: Vec<(String, Vec<u8>)> = ["long.txt", "täst \"q\".txt", "name with blanks", "crlf.txt"]
        .map(|name| (name.to_owned(), std::fs::read(dir.path().join(name)).expect("read")))
        .into();
    write(
        "long.txt",
        &long.replace("line 3\n", "").replace("line 30\n", "thirty\nmore\n").replace("line 60\n", "line 60"),
    );
    write("täst \"q\".txt", "a\nB\n");
    write("name with blanks", "y\n\nz");
    write("crlf.txt", "a\r\nc\r\n");
    write("new.txt", "fresh\n");
    write("empty", "");
    git(&["add", "-A"]);
    let files = parse(&git(&["diff", "--cached"])).expect("valid");
    assert_eq!(files.len(), 6);
    for file in files {
        let name = file.new.as_ref().expect("nothing was deleted");
        let before = base.iter().find(|(known, _)| Path::new(known) == name).map_or(&b""[..], |(_, text)| text);
        let after = std::fs::read(dir.path().join(name)).expect("read");
        assert_eq!(file.apply(before).expect("applies"), after, "{}", name.display());
    }
}
