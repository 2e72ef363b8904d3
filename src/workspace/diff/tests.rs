//! Git itself is the judge: our patch, applied to the base, must give exactly the final tree.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Stdio};

use proptest::prelude::*;

use super::*;
use crate::workspace::names::as_path;

/// What a test puts at a path.
#[derive(Debug, Clone)]
enum Node {
    File(Vec<u8>, bool),
    Link(Vec<u8>),
}

type Files = Vec<(Vec<u8>, Node)>;

fn file(path: &str, content: &str) -> (Vec<u8>, Node) {
    (path.into(), Node::File(content.into(), false))
}

/// Writes files below a folder. A later path that a former makes impossible (a file in the place of a folder) is left out.
fn build(root: &Path, files: &Files) {
    for (path, node) in files {
        let path = root.join(as_path(path));
        let Some(parent) = path.parent() else { continue };
        let on_the_way = parent.ancestors().take_while(|dir| *dir != root);
        if on_the_way.filter_map(|dir| dir.symlink_metadata().ok()).any(|meta| !meta.is_dir()) {
            continue;
        }
        fs::create_dir_all(parent).expect("folder is made");
        if path.symlink_metadata().is_ok() {
            continue;
        }
        match node {
            Node::Link(target) => symlink(as_path(target), &path).expect("link is made"),
            Node::File(content, executable) => {
                fs::write(&path, content).expect("file is written");
                let mode = if *executable { 0o755 } else { 0o644 };
                fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("mode is set");
            }
        }
    }
}

fn git_apply(tree: &Path, patch: &[u8]) {
    let mut child = Command::new("git")
        .args(["-c", "core.protectNTFS=false", "apply", "--binary", "--whitespace=nowarn", "-"])
        .current_dir(tree)
        .env("GIT_CEILING_DIRECTORIES", tree.parent().expect("has a parent"))
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("git runs");
    std::io::Write::write_all(&mut child.stdin.take().expect("piped"), patch).expect("git reads");
    let output = child.wait_with_output().expect("git ends");
    let shown = String::from_utf8_lossy(patch);
    assert!(output.status.success(), "{}\n{shown}", String::from_utf8_lossy(&output.stderr));
}

/// Builds both trees, applies our patch with git and compares; returns the diff.
fn check(base: &Files, last: &Files) -> Diff {
    let dir = tempfile::tempdir().expect("temp dir");
    let real = dir.path().canonicalize().expect("real path");
    let (base_dir, last_dir) = (real.join("base"), real.join("last"));
    for (path, files) in [(&base_dir, base), (&last_dir, last)] {
        fs::create_dir(path).expect("folder is made");
        build(path, files);
    }
    let diff = diff_trees(&base_dir, &last_dir, DiffLimits::default()).expect("trees are readable");
    if diff.patch.is_empty() {
        assert_eq!(diff.stats.files_changed, 0);
    } else {
        git_apply(&base_dir, &diff.patch);
    }
    let (applied, wanted) = (Snapshot::of(&base_dir).expect("reads"), Snapshot::of(&last_dir).expect("reads"));
    assert_eq!(applied, wanted, "{}", String::from_utf8_lossy(&diff.patch));
    diff
}

fn text(diff: &Diff) -> String {
    String::from_utf8_lossy(&diff.patch).into_owned()
}

#[test]
fn a_changed_line_looks_as_git_shows_it() {
    let before = "1\n2\n3\n4\n5\n6\n7\n8\n";
    let diff = check(&vec![file("a.txt", before)], &vec![file("a.txt", &before.replace('5', "five"))]);
    let expected = "diff --git a/a.txt b/a.txt\n\
        index 535d2b01d3397c2228490875defc92370602ca46..ab00c612fbf70cdcfef48fd8b9215b45977d2ed6 100644\n\
        --- a/a.txt\n+++ b/a.txt\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n";
    assert_eq!(text(&diff), expected);
    assert_eq!((diff.stats.files_changed, diff.stats.lines_added, diff.stats.lines_removed), (1, 1, 1));
}

#[test]
fn blob_ids_are_those_of_git() {
    let diff = check(&vec![], &vec![file("hello", "hello\n"), file("empty", "")]);
    assert!(
        text(&diff)
            .contains("index 0000000000000000000000000000000000000000..ce013625030ba8dba906f756967f9e9ca394464a")
    );
    assert!(text(&diff).contains("..e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"));
}

#[test]
fn equal_trees_give_nothing() {
    let files = vec![file("a", "1\n"), (b"l".to_vec(), Node::Link(b"a".to_vec()))];
    assert_eq!(check(&files, &files), Diff::default());
}

#[test]
fn renames_and_executable_bits_need_no_content() {
    let script = |name: &str, executable| (name.as_bytes().to_vec(), Node::File(b"#!/bin/sh\n".to_vec(), executable));
    let moved = check(&vec![script("old name", false)], &vec![script("new\tname", true)]);
    let expected = "diff --git a/old name \"b/new\\tname\"\nold mode 100644\nnew mode 100755\nsimilarity index 100%\n\
        rename from old name\nrename to \"new\\tname\"\n";
    assert_eq!(text(&moved), expected);
    assert_eq!(moved.stats.files_changed, 1);
    let flipped = check(&vec![script("x", false)], &vec![script("x", true)]);
    assert_eq!(text(&flipped), "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n");
}

#[test]
fn files_links_and_folders_change_places() {
    let link = |path: &str, target: &str| (path.as_bytes().to_vec(), Node::Link(target.into()));
    let shapes: Vec<Files> = vec![
        vec![file("x", "text\n")],
        vec![link("x", "/etc/passwd")],
        vec![file("x/y", "text\n"), file("x/z", "other")],
        vec![file("x/y/z", "text\n")],
        vec![],
        vec![file("x", "")],
        vec![file("x", "a\0b")],
        vec![link("x", "y"), file("y/q", "text\n")],
        vec![file("y", "text\n")],
    ];
    for base in &shapes {
        for last in &shapes {
            check(base, last);
        }
    }
    let diff = check(&shapes[0], &shapes[1]);
    assert_eq!(diff.stats.files_changed, 1);
}

#[test]
fn content_of_every_kind_survives() {
    let contents: Vec<Vec<u8>> = vec![
        b"".to_vec(),
        b"\n".to_vec(),
        b"no newline".to_vec(),
        b"a\r\nb\r\n".to_vec(),
        b"a\nb\n".to_vec(),
        b"a\r\nb".to_vec(),
        b"latin \xe4\xff\n".to_vec(),
        b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n".to_vec(),
        b"nul\0inside".to_vec(),
        (0..=255).cycle().take(10_000).collect(),
        [vec![b'x'; 9000], vec![0, b'\n']].concat(),
        vec![0; 53],
    ];
    for old in &contents {
        for new in &contents {
            let one = |content: &[u8]| vec![(b"f".to_vec(), Node::File(content.to_vec(), false))];
            check(&one(old), &one(new));
        }
    }
}

#[test]
fn names_of_every_kind_survive() {
    let names: &[&[u8]] = &[
        b"a\nb.txt",
        b"-rf",
        b"\"q\".txt",
        b"\xff\xfe",
        b"back\\slash",
        b"tab\tname",
        b" lead",
        b"trail ",
        b"a b/c d",
        b"--- a",
        b"b/",
        b"\x01\x7f",
        "grün/ß".as_bytes(),
        b"a -> b",
        b"dev/null",
        b"#x",
        b"*",
        b"a/b/c/d/e",
        b".gitignore",
        b".gitattributes",
        b"x b/x",
    ];
    for name in names.iter().filter(|name| !name.ends_with(b"/")) {
        let make = |content: &str| vec![(name.to_vec(), Node::File(content.into(), false))];
        check(&vec![], &make("new\n"));
        check(&make("old\n"), &make("new\n"));
        check(&make("old\n"), &vec![]);
        check(&vec![], &make(""));
        check(&make(""), &vec![]);
        check(&make("moved\n"), &vec![file("elsewhere", "moved\n")]);
        check(&vec![file("elsewhere", "moved\n")], &make("moved\n"));
        check(&make("text"), &vec![(name.to_vec(), Node::Link(b"x".to_vec()))]);
    }
}

#[test]
fn large_files_are_noted_by_size_and_hash() {
    let dir = tempfile::tempdir().expect("temp dir");
    let (base, last) = (dir.path().join("base"), dir.path().join("last"));
    fs::create_dir(&base).expect("folder");
    fs::create_dir(&last).expect("folder");
    fs::write(last.join("big"), vec![b'x'; 2000]).expect("writes");
    fs::write(last.join("small"), "x\n").expect("writes");
    let limits = DiffLimits { file_bytes: 1000, ..DiffLimits::default() };
    let diff = diff_trees(&base, &last, limits).expect("reads");
    assert_eq!(diff.stats.files_changed, 2);
    let hash = blake3::hash(&[b'x'; 2000]).to_hex().to_string();
    assert_eq!(diff.stats.notes, [format!("big new, not shown: nothing -> 2000 bytes, blake3 {hash}")]);
    assert!(text(&diff).ends_with(&format!("# {}\n", diff.stats.notes[0])));
    git_apply(&base.canonicalize().expect("real"), &diff.patch);
    assert_eq!(fs::read(base.join("small")).expect("applied"), b"x\n");
    let tiny = DiffLimits { patch_bytes: 1, ..DiffLimits::default() };
    let cut = diff_trees(&dir.path().join("last"), &dir.path().join("base"), tiny).expect("reads");
    assert_eq!(cut.stats.notes.len(), 0, "the one file that is left is a deletion below the limit");
}

#[test]
fn git_folders_and_scratch_are_no_part_of_a_tree() {
    let files = vec![
        file(".git/config", "x"),
        file("sub/.git/HEAD", "x"),
        file("sub/real", "kept\n"),
        file(".refrain/notes", "x"),
        file("sub/.refrain/kept", "y\n"),
        file("other/.git", "gitdir: /etc\n"),
    ];
    let diff = check(&vec![], &files);
    assert_eq!(diff.stats.files_changed, 2);
    assert!(text(&diff).contains("+++ b/sub/real") && text(&diff).contains("+++ b/sub/.refrain/kept"));
}

/// Content that makes edits collide: few different lines, with and without ends.
fn content() -> impl Strategy<Value = Vec<u8>> {
    let line = prop::sample::select(vec!["a\n", "b\n", "\n", "}\n", "  x\n", "\r\n", "end", "\0", "é\n"]);
    prop_oneof![
        4 => prop::collection::vec(line, 0..25).prop_map(|lines| lines.concat().into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..200),
    ]
}

fn node() -> impl Strategy<Value = Node> {
    prop_oneof![
        6 => (content(), any::<bool>()).prop_map(|(content, executable)| Node::File(content, executable)),
        // Not what exists or loops: `git apply` looks through a link that the patch is about to replace.
        1 => prop::sample::select(vec!["nowhere", "../../nowhere", "/etc/passwd", "\n"]).prop_map(|t| Node::Link(t.into())),
    ]
}

fn tree() -> impl Strategy<Value = Files> {
    let part = prop::sample::select(vec!["a", "b", "c", "d e", "\"", "-x", "é"]);
    let path = prop::collection::vec(part, 1..4).prop_map(|parts| parts.join("/").into_bytes());
    prop::collection::vec((path, node()), 0..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn git_applies_every_patch(base in tree(), last in tree(), kept in prop::collection::vec(any::<bool>(), 8)) {
        // Some files stay, some move, so that every kind of change meets every other.
        let mut last = last;
        for ((path, node), keep) in base.iter().zip(kept) {
            if keep {
                last.insert(0, (path.clone(), node.clone()));
            } else {
                last.push((["moved-".as_bytes(), path].concat(), node.clone()));
            }
        }
        check(&base, &last);
    }
}

#[test]
fn a_path_longer_than_the_kernel_takes_at_once_is_read() {
    let dir = tempfile::tempdir().expect("temp dir");
    let (base, last) = (dir.path().join("base"), dir.path().join("last"));
    fs::create_dir(&base).expect("folder");
    fs::create_dir(&last).expect("folder");
    let mut folder = crate::workspace::walk::open_root(&last).expect("opens");
    let name = std::ffi::CString::new("d".repeat(250)).expect("no NUL");
    for _ in 0..20 {
        rustix::fs::mkdirat(&folder, &name, rustix::fs::Mode::RWXU).expect("folder");
        folder = crate::workspace::walk::open_folder(&folder, &name).expect("opens");
    }
    let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::CREATE;
    let file = rustix::fs::openat(&folder, c"file", flags, rustix::fs::Mode::RWXU).expect("creates");
    std::io::Write::write_all(&mut fs::File::from(file), b"deep\n").expect("writes");
    let diff = diff_trees(&base, &last, DiffLimits::default()).expect("reads");
    assert!(diff.patch.ends_with(b"+deep\n") && diff.patch.len() > 5000);
}
