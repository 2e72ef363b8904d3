//! The workspace from seed to patch, with real git repositories and an agent that does its worst.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use refrain::domain::Failure;
use refrain::domain::task::{EvaluateIn, HiddenTests, Seed, Task, Track};
use refrain::runtime::{Captured, Command, Environment, ExecEnd, ExecReport, Output, Quiescence, RuntimeError, Stdin};
use refrain::workspace::{
    Collected, SeedCache, Seeded, Snapshot, WorkspaceError, WorkspaceFiles, collect, collect_at, collected_before,
    discard, exists, fork, merge, place, place_tree, rebase, rebased_before, set_back,
};
use tempfile::TempDir;
use test_case::test_case;
use tokio_util::sync::CancellationToken;

/// A folder as an environment; with `remote` it hides that its files lie on the host.
struct Folder {
    dir: PathBuf,
    workspace: PathBuf,
    remote: bool,
}

impl Folder {
    fn new(dir: &Path, remote: bool) -> Self {
        let workspace = dir.join("work");
        fs::create_dir_all(&workspace).unwrap();
        Self { dir: dir.to_owned(), workspace, remote }
    }
}

#[async_trait]
impl Environment for Folder {
    fn workspace(&self) -> &Path {
        &self.workspace
    }

    fn home(&self) -> &Path {
        &self.dir
    }

    fn host_path(&self, path: &Path) -> Option<PathBuf> {
        (!self.remote).then(|| path.to_owned())
    }

    async fn exec(&self, command: &Command, output: Output, _: &CancellationToken) -> Result<ExecReport, RuntimeError> {
        let mut child = Process::new(&command.argv[0]);
        child.args(&command.argv[1..]).current_dir(command.cwd.as_ref().unwrap_or(&self.workspace));
        let input = tempfile::NamedTempFile::new().unwrap();
        if let Stdin::Bytes(bytes) = &command.stdin {
            fs::write(input.path(), bytes).unwrap();
        }
        let done = child.stdin(fs::File::open(input.path()).unwrap()).output().unwrap();
        let Output::Capture { limit } = output else { panic!("only captures are used here") };
        let captured = |bytes: Vec<u8>| {
            let (total, cut) = (bytes.len() as u64, bytes.len() > limit);
            Captured { bytes: bytes.into_iter().take(limit).collect(), total, cut }
        };
        let code = done.status.code();
        Ok(ExecReport {
            end: ExecEnd::Exited(code.unwrap_or(-1)),
            exit_code: code,
            signal: None,
            stdout: captured(done.stdout),
            stderr: captured(done.stderr),
            duration: Duration::ZERO,
            longest_silence: Duration::ZERO,
            leftovers: 0,
            out_of_memory: None,
            notes: Vec::new(),
        })
    }

    async fn put(&self, from: &Path, to: &Path) -> Result<(), RuntimeError> {
        fs::create_dir_all(to).unwrap();
        shell(from, &format!("cp -a . '{}'", to.display()));
        Ok(())
    }

    async fn put_file(&self, content: &[u8], to: &Path, _: bool) -> Result<(), RuntimeError> {
        fs::write(to, content).unwrap();
        Ok(())
    }

    async fn get(&self, from: &Path, to: &Path) -> Result<Vec<String>, RuntimeError> {
        fs::create_dir_all(to).unwrap();
        shell(from, &format!("chmod -R u+rX . && cp -a . '{}'", to.display()));
        Ok(vec!["a note of the runtime".to_owned()])
    }

    async fn quiesce(&self) -> Result<Quiescence, RuntimeError> {
        Ok(Quiescence::default())
    }

    async fn close(&self) -> Result<(), RuntimeError> {
        Ok(())
    }
}

/// Runs a script, as an agent or a user would; must succeed.
fn shell(dir: &Path, script: &str) -> String {
    let done = Process::new("bash")
        .args(["-ec", script])
        .current_dir(dir)
        .envs([("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_NOSYSTEM", "1"), ("HOME", "/nonexistent")])
        .envs([("GIT_AUTHOR_NAME", "a"), ("GIT_AUTHOR_EMAIL", "a@b"), ("GIT_COMMITTER_NAME", "a")])
        .env("GIT_COMMITTER_EMAIL", "a@b")
        .output()
        .unwrap();
    assert!(done.status.success(), "{script}\n{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}

fn task(id: &str, seed: Seed, mutation: Option<&str>) -> Task {
    Task {
        id: id.to_owned(),
        name: id.to_owned(),
        track: Track::Swe,
        difficulty: None,
        description: None,
        seed,
        mutation: mutation.map(str::to_owned),
        setup_script: None,
        prompt: "Do it.".to_owned(),
        checks: Vec::new(),
        test_command: None,
        hidden: HiddenTests::None,
        fail_to_pass: Vec::new(),
        pass_to_pass: Vec::new(),
        expected_files: Vec::new(),
        rubric: None,
        timeout: Duration::from_secs(600),
        multi_session: true,
        evaluate: EvaluateIn::Fresh,
        phases: Vec::new(),
        metadata: serde_json::Map::new(),
        source: PathBuf::from("/tasks/t.yaml"),
    }
}

/// A bench: a folder for sources, a cache, and as many environments as a test wants.
struct Bench {
    dir: TempDir,
    cache: SeedCache,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let cache = SeedCache::new(dir.path().join("cache"));
        fs::create_dir(dir.path().join("source")).unwrap();
        Self { dir, cache }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn source(&self, script: &str) -> PathBuf {
        shell(&self.path("source"), script);
        self.path("source")
    }

    async fn directory(&self, script: &str) -> Arc<Seeded> {
        let path = self.source(script);
        self.cache.prepare(&task("t", Seed::Directory { path }, None)).await.unwrap()
    }

    async fn placed(&self, name: &str, seeded: &Seeded, remote: bool) -> Folder {
        let env = Folder::new(&self.path(name), remote);
        place(seeded, &env).await.unwrap();
        env
    }
}

fn paths(snapshot: &Snapshot) -> Vec<String> {
    snapshot.entries().map(|(path, _)| String::from_utf8_lossy(path).into_owned()).collect()
}

/// Applies a patch to a copy of the base with git and compares with the collected tree: the whole truth about a diff.
fn check_patch(bench: &Bench, seeded: &Seeded, collected: &Collected) {
    let copy = tempfile::tempdir_in(bench.dir.path()).unwrap();
    shell(copy.path(), &format!("cp -a '{}' tree", seeded.tree.display()));
    let patch = copy.path().join("patch");
    fs::write(&patch, &collected.diff).unwrap();
    if !collected.diff.is_empty() {
        let tree = copy.path().join("tree");
        shell(&tree, "GIT_CEILING_DIRECTORIES=$(dirname $(pwd -P)) git apply --binary --whitespace=nowarn ../patch");
    }
    let applied = Snapshot::of(&copy.path().join("tree")).unwrap();
    assert_eq!(applied.fingerprint(), collected.snapshot.fingerprint(), "{}", String::from_utf8_lossy(&collected.diff));
}

const SOURCE: &str = "printf 'one\\ntwo\\nthree\\n' > a.txt; printf '#!/bin/sh\\n' > run.sh; chmod +x run.sh; mkdir d; echo deep > d/b.txt;
    printf '\\0\\1\\2' > bin; ln -s a.txt link; echo 'ignored.log' > .gitignore; echo seed > ignored.log";

#[tokio::test]
async fn a_directory_is_copied_without_its_repository() {
    let bench = Bench::new();
    let seeded = bench.directory(&format!("{SOURCE}; git init -q; mkdir sub; git init -q sub; echo x > sub/f")).await;
    let expected = [".gitignore", "a.txt", "bin", "d/b.txt", "ignored.log", "link", "run.sh", "sub/f"];
    assert_eq!(paths(&seeded.baseline), expected);
    assert!(!seeded.tree.join(".git").exists() && !seeded.tree.join("sub/.git").exists());
    assert_eq!(fs::read_link(seeded.tree.join("link")).unwrap(), Path::new("a.txt"));
    assert_eq!(fs::metadata(seeded.tree.join("run.sh")).unwrap().permissions().mode() & 0o111, 0o111);
}

#[test_case("ln -s ../../etc/hosts out", "out"; "parent")]
#[test_case("ln -s /etc/hostname abs", "abs"; "absolute")]
#[test_case("mkdir -p d/e; ln -s ../.. d/e/up; ln -s d/e/up/.. sly", "sly"; "over another link")]
#[tokio::test]
async fn links_that_lead_out_of_a_directory_are_refused(script: &str, name: &str) {
    let bench = Bench::new();
    let path = bench.source(script);
    let error = bench.cache.prepare(&task("leaky", Seed::Directory { path }, None)).await.unwrap_err();
    let message = error.to_string();
    assert!(message.contains("`leaky`") && message.contains(&format!("symlink {name} ")), "{message}");
    assert!(matches!(Failure::from(error), Failure::Configuration { .. }));
}

#[tokio::test]
async fn a_missing_directory_is_a_clear_error() {
    let bench = Bench::new();
    let path = bench.path("nowhere");
    let error = bench.cache.prepare(&task("t", Seed::Directory { path }, None)).await.unwrap_err();
    assert!(error.to_string().contains("nowhere` is not a directory"), "{error}");
}

#[tokio::test]
async fn the_repository_has_one_commit_and_a_clean_status() {
    let bench = Bench::new();
    let attributes =
        "printf '* text=auto eol=crlf\\n*.bin -text ident\\n' > .gitattributes; printf 'a\\r\\nb\\r\\n' > crlf.txt";
    let seeded = bench.directory(&format!("{SOURCE}; {attributes}")).await;
    let env = bench.placed("env", &seeded, false).await;
    let git = |args: &str| shell(env.workspace(), &format!("git {args}")).trim().to_owned();
    assert_eq!(git("status --porcelain --ignored"), "");
    assert_eq!(git("rev-list --all --count"), "1");
    assert_eq!(git("rev-parse HEAD"), seeded.base_commit);
    assert_eq!(git("branch --format='%(refname:short)'"), "main");
    assert_eq!(git("remote") + &git("tag") + &git("stash list") + &git("reflog"), "");
    assert_eq!(git("log --format='%an %ae %ad %s'"), "Refrain refrain@localhost Sat Jan 1 00:00:00 2000 +0000 Base");
    assert_eq!(git("fsck --strict --unreachable"), "");
    assert!(!env.workspace().join(".git/hooks").exists());
}

#[tokio::test]
async fn the_same_files_give_the_same_base_commit() {
    let (one, two) = (Bench::new(), Bench::new());
    let (first, second) = (one.directory(SOURCE).await, two.directory(SOURCE).await);
    assert_eq!(first.base_commit, second.base_commit);
    assert_eq!(first.baseline.fingerprint(), second.baseline.fingerprint());
    let empty = two.cache.prepare(&task("e", Seed::Empty, None)).await.unwrap();
    assert!(empty.baseline.is_empty() && empty.base_commit.len() == 40);
}

const HISTORY: &str = "git init -q -b main; echo first > a.txt; printf '#!/bin/sh\\n' > run.sh; chmod +x run.sh;
    ln -s /etc/hostname outward; echo 'a.txt export-ignore' > .gitattributes; git add -A; git commit -qm 'first';
    echo SOLUTION > fix.txt; git add -A; git commit -qm 'SOLUTION'; git tag fix; echo SOLUTION | git hash-object -w --stdin;
    git reset -q --hard HEAD~1; git branch SOLUTION-branch; git notes add -m SOLUTION;
    git config filter.evil.smudge 'touch CANARY'; git config core.fsmonitor 'touch CANARY; false'";

#[test_case("", ""; "work tree")]
#[test_case("; git clone -q --mirror . ../bare.git; cd ../bare.git; git config core.fsmonitor 'touch CANARY'", "bare.git"; "bare")]
#[test_case("; git worktree add -q ../tree main~0 --detach", "tree"; "linked work tree")]
#[tokio::test]
async fn a_commit_is_exported_without_any_of_its_history(more: &str, dir: &str) {
    let bench = Bench::new();
    bench.source(&format!("{HISTORY}{more}"));
    let path = bench.path(if dir.is_empty() { "source" } else { dir });
    // The user's own git may have set it off before.
    shell(bench.dir.path(), "find . -name CANARY -delete");
    let seeded = bench.cache.prepare(&task("t", Seed::Git { path, commit: None }, None)).await.unwrap();
    assert_eq!(paths(&seeded.baseline), [".gitattributes", "a.txt", "outward", "run.sh"]);
    let env = bench.placed("env", &seeded, false).await;
    shell(env.workspace(), "git unpack-objects -q < .git/objects/pack/*.pack || true");
    let found = shell(
        env.workspace(),
        "grep -ra SOLUTION . || true; git cat-file --batch-all-objects --batch | grep -a SOLUTION || true",
    );
    assert_eq!(found, "");
    assert_eq!(shell(bench.dir.path(), "find . -name CANARY"), "");
}

#[tokio::test]
async fn named_commits_branches_and_tags_are_found() {
    let bench = Bench::new();
    let path = bench.source(HISTORY);
    let id = shell(&path, "git rev-parse fix").trim().to_owned();
    for commit in ["fix", &id, &id[..10]] {
        let seed = Seed::Git { path: path.clone(), commit: Some(commit.to_owned()) };
        let seeded = bench.cache.prepare(&task("t", seed, None)).await.unwrap();
        assert!(paths(&seeded.baseline).contains(&"fix.txt".to_owned()));
    }
}

#[test_case("git init -q", Some("0123456"), "there is no commit `0123456`"; "unknown commit")]
#[test_case("git init -q", None, "has no commit yet"; "no commit")]
#[test_case("true", Some("main"), "is not a git repository"; "plain directory")]
#[test_case(HISTORY, Some("--help"), "there is no commit `--help`"; "an option for a commit")]
#[tokio::test]
async fn commits_that_are_not_there_are_clear_errors(script: &str, commit: Option<&str>, expected: &str) {
    let bench = Bench::new();
    let seed = Seed::Git { path: bench.source(script), commit: commit.map(str::to_owned) };
    let error = bench.cache.prepare(&task("t", seed, None)).await.unwrap_err();
    assert!(error.is_configuration() && error.to_string().contains(expected), "{error}");
}

#[tokio::test]
async fn a_folder_inside_a_larger_repository_is_not_taken_for_it() {
    let bench = Bench::new();
    bench.source(&format!("{HISTORY}; mkdir inner"));
    let seed = Seed::Git { path: bench.path("source/inner"), commit: None };
    let error = bench.cache.prepare(&task("t", seed, None)).await.unwrap_err();
    assert!(error.to_string().contains("is not a git repository"), "{error}");
}

#[tokio::test]
async fn forged_trees_write_nothing_outside() {
    let bench = Bench::new();
    let path = bench.source(
        "git init -q; b=$(echo evil | git hash-object -w --stdin);
         t=$(printf \"100644 blob $b\\tevil\\n\" | git mktree); u=$(printf \"040000 tree $t\\t..\\n\" | git mktree);
         git update-ref refs/heads/dots $(git commit-tree -m x $u);
         l=$(printf /tmp | git hash-object -w --stdin);
         d=$(printf \"120000 blob $l\\tx\\n040000 tree $t\\tx\\n\" | git mktree);
         git update-ref refs/heads/link $(git commit-tree -m x $d)",
    );
    for commit in ["dots", "link"] {
        let seed = Seed::Git { path: path.clone(), commit: Some(commit.to_owned()) };
        bench.cache.prepare(&task(commit, seed, None)).await.unwrap_err();
    }
    assert!(!Path::new("/tmp/evil").exists() && shell(bench.dir.path(), "find . -name evil").is_empty());
}

#[tokio::test]
async fn submodules_are_left_empty_with_a_note() {
    let bench = Bench::new();
    let path = bench.source(
        "git init -q; echo x > f; git add f; git commit -qm x;
         git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),lib; git commit -qm sub",
    );
    let seeded = bench.cache.prepare(&task("t", Seed::Git { path, commit: None }, None)).await.unwrap();
    assert_eq!(paths(&seeded.baseline), ["f"]);
    assert_eq!(seeded.notes, ["the submodule lib is left empty"]);
}

#[tokio::test]
async fn a_url_is_cloned_once_and_fetched_when_a_commit_is_new() {
    let bench = Bench::new();
    let path = bench.source(HISTORY);
    let url = format!("file://{}", path.display());
    let seed = |commit: Option<&str>| Seed::Url { url: url.clone(), commit: commit.map(str::to_owned) };
    let seeded = bench.cache.prepare(&task("a", seed(None), None)).await.unwrap();
    assert_eq!(paths(&seeded.baseline), [".gitattributes", "a.txt", "outward", "run.sh"]);
    let new = shell(&path, "echo new > new.txt; git add new.txt; git commit -qm new; git rev-parse HEAD");
    let seeded = bench.cache.prepare(&task("b", seed(Some(new.trim())), None)).await.unwrap();
    assert!(paths(&seeded.baseline).contains(&"new.txt".to_owned()));
    let error = bench.cache.prepare(&task("c", seed(Some("nothere")), None)).await.unwrap_err();
    assert!(error.to_string().contains("there is no commit `nothere`"), "{error}");
    assert_eq!(fs::read_dir(bench.path("cache/clones")).unwrap().count(), 1);
}

#[tokio::test]
async fn urls_that_cannot_be_fetched_say_so() {
    let bench = Bench::new();
    let canary = bench.path("CANARY");
    let evil = Seed::Url { url: format!("ext::touch {}", canary.display()), commit: None };
    let error = bench.cache.prepare(&task("t", evil, None)).await.unwrap_err();
    assert!(error.is_configuration() && !canary.exists(), "{error}");
    let gone = Seed::Url { url: format!("file://{}/gone", bench.dir.path().display()), commit: None };
    let error = bench.cache.prepare(&task("t", gone, None)).await.unwrap_err();
    assert!(matches!(error, WorkspaceError::Fetch { .. }) && error.to_string().contains("gone"), "{error}");
}

const MUTATION: &str = "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three";

#[tokio::test]
async fn a_mutation_is_part_of_the_base_even_inside_a_repository() {
    let bench = Bench::new();
    let path = bench.source(SOURCE);
    shell(bench.dir.path(), "git init -q");
    let seeded = bench.cache.prepare(&task("t", Seed::Directory { path }, Some(MUTATION))).await.unwrap();
    assert_eq!(fs::read_to_string(seeded.tree.join("a.txt")).unwrap(), "one\nTWO\nthree\n");
    let env = bench.placed("env", &seeded, false).await;
    assert_eq!(shell(env.workspace(), "git log --format=%H -- a.txt").lines().count(), 1);
    assert!(!collect(&env, &seeded, &bench.path("out")).await.unwrap().changed);
}

#[test_case(&MUTATION.replace("-two", "-other"), "a.txt"; "other content")]
#[test_case("not a patch", "No valid patches"; "no patch")]
#[test_case("--- /dev/null\n+++ b/../escaped\n@@ -0,0 +1 @@\n+x\n", "escaped"; "leads out")]
#[test_case("--- /dev/null\n+++ b/.git/hooks/x\n@@ -0,0 +1 @@\n+x\n", ".git"; "into the repository")]
#[tokio::test]
async fn a_mutation_that_does_not_apply_names_task_and_reason(mutation: &str, expected: &str) {
    let bench = Bench::new();
    let path = bench.source(SOURCE);
    let error = bench.cache.prepare(&task("broken", Seed::Directory { path }, Some(mutation))).await.unwrap_err();
    assert!(error.to_string().contains("`broken`") && error.to_string().contains(expected), "{error}");
    assert!(error.is_configuration());
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_callers_share_one_preparation() {
    let bench = Arc::new(Bench::new());
    let path = bench.source(HISTORY);
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let (bench, seed) = (Arc::clone(&bench), Seed::Git { path: path.clone(), commit: None });
        waiting.spawn(async move { bench.cache.prepare(&task("t", seed, None)).await.unwrap() });
    }
    let all = waiting.join_all().await;
    assert!(all.iter().all(|seeded| Arc::ptr_eq(seeded, &all[0])));
    let mut left: Vec<_> = fs::read_dir(bench.path("cache")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.retain(|name| name != ".in-use");
    assert_eq!(left.len(), 1, "nothing else is left in the cache: {left:?}");
}

#[tokio::test]
async fn caches_of_two_processes_share_a_folder_and_notice_changes() {
    let bench = Bench::new();
    let other = SeedCache::new(bench.path("cache"));
    let first = bench.directory(SOURCE).await;
    let path = bench.path("source");
    let second = other.prepare(&task("t", Seed::Directory { path: path.clone() }, None)).await.unwrap();
    assert_eq!(first.tree, second.tree);
    fs::write(path.join("a.txt"), "changed").unwrap();
    let third = SeedCache::new(bench.path("cache"));
    let changed = third.prepare(&task("t", Seed::Directory { path: path.clone() }, None)).await.unwrap();
    assert_ne!(changed.tree, first.tree);
    // A seed that somebody damaged is not used again.
    fs::write(changed.tree.join("a.txt"), "damaged").unwrap();
    let fourth = SeedCache::new(bench.path("cache"));
    let repaired = fourth.prepare(&task("t", Seed::Directory { path }, None)).await.unwrap();
    assert_eq!(fs::read_to_string(repaired.tree.join("a.txt")).unwrap(), "changed");
}

#[tokio::test]
async fn a_failure_that_may_pass_is_tried_again() {
    let bench = Bench::new();
    fs::write(bench.path("cache"), "a file in the way").unwrap();
    let path = bench.source(SOURCE);
    let seed = task("t", Seed::Directory { path }, None);
    assert!(matches!(bench.cache.prepare(&seed).await.unwrap_err(), WorkspaceError::File { .. }));
    fs::remove_file(bench.path("cache")).unwrap();
    bench.cache.prepare(&seed).await.unwrap();
}

/// What agents do to hide or lose their work. In each case the one line in `a.txt` must be in the diff, and nothing of git.
const HIDING: &[&str] = &[
    "git commit -qam work",
    "git commit -qa --amend -m mine",
    "rm -rf .git",
    "rm -rf .git; echo 'gitdir: /etc' > .git",
    "rm -rf .git; ln -s /etc .git",
    "rm -rf .git; git init -q; git add -A; git commit -qm x",
    "git commit -qam x; git replace HEAD~1 HEAD",
    "git update-index --skip-worktree a.txt; git update-index --assume-unchanged a.txt",
    "echo '*' > .git/info/exclude || { mkdir -p .git/info; echo '*' > .git/info/exclude; }",
    "mkdir -p .git/info; echo '* -diff' > .git/info/attributes",
    "git config core.worktree /etc; git config core.bare true",
    "chmod -R a-w .git; chmod 000 .git",
    "git checkout -q --orphan new; git commit -qm x; git branch -D main; git reflog expire --all --expire=now; git gc -q --prune=now",
    "mkdir .refrain; echo x > .refrain/notes",
];

#[tokio::test]
async fn nothing_an_agent_does_to_its_repository_changes_the_diff() {
    let bench = Bench::new();
    let seeded = bench.directory(SOURCE).await;
    for (i, hiding) in HIDING.iter().enumerate() {
        for remote in [false, true] {
            let env = bench.placed(&format!("env{i}{remote}"), &seeded, remote).await;
            shell(env.workspace(), &format!("sed -i s/two/TWO/ a.txt; {hiding}"));
            let collected = collect(&env, &seeded, &bench.path(&format!("out{i}{remote}"))).await.unwrap();
            let diff = String::from_utf8(collected.diff.clone()).unwrap();
            assert!(diff.ends_with("@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n"), "{hiding}\n{diff}");
            assert_eq!((collected.changed, collected.stats.files_changed), (true, 1), "{hiding}");
            assert!(!collected.tree.join(".git").exists() && !collected.tree.join(".refrain").exists());
            check_patch(&bench, &seeded, &collected);
        }
    }
}

#[tokio::test]
async fn every_kind_of_change_is_in_the_diff() {
    let bench = Bench::new();
    let seeded = bench.directory(SOURCE).await;
    let env = bench.placed("env", &seeded, false).await;
    shell(
        env.workspace(),
        r#"git mv d/b.txt "moved name"; printf '\0\7\377' > bin; touch empty; chmod -x run.sh; rm ignored.log
           printf 'no newline' >> a.txt; ln -sf /etc/passwd link; ln -s loop loop; printf 'x\r\n' > crlf
           git init -q inner; echo inside > inner/file; (cd inner; git add -A; git commit -qm x)
           echo '* -diff' > .gitattributes; echo '*' > .gitignore
           echo 1 > $'a\nb.txt'; echo 2 > ./-rf; echo 3 > '"q".txt'; echo 4 > $'\xff\xfe'; printf 'umlaut \xe4\n' > latin
           mkfifo pipe; python3 -c "import socket; socket.socket(socket.AF_UNIX).bind('sock')" || true
           mkdir closed; echo shut > closed/file; chmod 000 closed/file closed; mkdir void"#,
    );
    let collected = collect(&env, &seeded, &bench.path("out")).await.unwrap();
    check_patch(&bench, &seeded, &collected);
    let diff = String::from_utf8_lossy(&collected.diff).into_owned();
    for expected in [
        "rename from d/b.txt\nrename to moved name\n",
        "GIT binary patch\nliteral 3\n",
        "diff --git a/empty b/empty\nnew file mode 100644\nindex 0000000000000000000000000000000000000000..e69de29bb2d1d6434b8b29ae775ad8c2e48c5391\n",
        "old mode 100755\nnew mode 100644\n",
        "deleted file mode 100644\n",
        "+no newline\n\\ No newline at end of file\n",
        "-a.txt\n\\ No newline at end of file\n+/etc/passwd\n\\ No newline at end of file\n",
        "+++ b/inner/file\n",
        "+++ \"b/a\\nb.txt\"\n",
        "+++ b/-rf\n",
        "+++ \"b/\\\"q\\\".txt\"\n",
        "+++ \"b/\\377\\376\"\n",
        "+x\r\n",
        "+shut\n",
    ] {
        assert!(diff.contains(expected), "{expected}\n{diff}");
    }
    assert!(!diff.contains("root:") && !diff.contains("Subproject"));
    assert!(collected.stats.notes.contains(&"pipe is a pipe; left out".to_owned()), "{:?}", collected.stats.notes);
    let link = collected.tree.join(OsStr::from_bytes(b"link"));
    assert_eq!(fs::read_link(link).unwrap(), Path::new("/etc/passwd"));
    shell(env.workspace(), "chmod -R u+rwx closed");
}

#[tokio::test]
async fn nothing_done_means_nothing_changed() {
    let bench = Bench::new();
    let seeded = bench.directory(SOURCE).await;
    for remote in [false, true] {
        let env = bench.placed(&format!("env{remote}"), &seeded, remote).await;
        shell(env.workspace(), "touch a.txt; git commit -q --allow-empty -m nothing; mkdir empty-folder");
        let collected = collect(&env, &seeded, &bench.path(&format!("out{remote}"))).await.unwrap();
        assert!(!collected.changed && collected.diff.is_empty());
        assert_eq!(collected.snapshot.fingerprint(), seeded.baseline.fingerprint());
        assert_eq!(collected.stats.notes.is_empty(), !remote, "a remote runtime's own notes are passed on");
    }
}

#[tokio::test]
async fn no_program_of_the_workspace_runs_on_the_host() {
    let bench = Bench::new();
    let seeded = bench.directory(SOURCE).await;
    let env = bench.placed("env", &seeded, false).await;
    let canary = bench.path("CANARY");
    let touch = format!("touch {}", canary.display());
    shell(
        env.workspace(),
        &format!(
            "printf '#!/bin/sh\\n{touch}\\n' > /dev/null; mkdir -p .git/hooks .git/info hooks
             for h in pre-commit post-checkout post-index-change fsmonitor-watchman reference-transaction; do
               printf '#!/bin/sh\\n{touch}\\ncat\\n' > hooks/$h; chmod +x hooks/$h; cp hooks/$h .git/hooks/; done
             git config core.hooksPath hooks; git config core.fsmonitor hooks/fsmonitor-watchman
             git config filter.evil.clean '{touch}; cat'; git config filter.evil.smudge '{touch}; cat'
             git config filter.evil.process '{touch}'; git config diff.external '{touch}'
             git config diff.evil.textconv '{touch}; cat'; git config diff.evil.command '{touch}'
             git config core.pager '{touch}'; git config core.sshCommand '{touch}'; git config core.editor '{touch}'
             git config alias.status '!{touch}'; git config gpg.program '{touch}'; git config merge.evil.driver '{touch}'
             echo '* filter=evil diff=evil merge=evil' > .gitattributes; cp .gitattributes .git/info/attributes
             echo more >> a.txt"
        ),
    );
    assert!(!canary.exists(), "preparing the trap did not spring it");
    let collected = collect(&env, &seeded, &bench.path("out")).await.unwrap();
    assert!(collected.changed);
    let fork_at = bench.path("env/fork");
    fork(&env, env.workspace(), &fork_at).await.unwrap();
    collect_at(&env, &fork_at, &seeded, &bench.path("out2")).await.unwrap();
    merge(&env, &fork_at, env.workspace()).await.unwrap();
    discard(&env, &fork_at).await.unwrap();
    let again = Folder::new(&bench.path("evaluation"), false);
    place_tree(&collected.tree, &seeded.git_template, &again).await.unwrap();
    assert!(!canary.exists(), "the host ran something that the workspace named");
    // The trap is real: git itself springs it.
    let _ = Process::new("git").args(["status"]).current_dir(env.workspace()).output().unwrap();
    assert!(canary.exists());
}

#[test_case(false; "on the host")]
#[test_case(true; "inside an environment")]
#[tokio::test]
async fn a_workspace_is_set_back_to_its_copy_whatever_became_of_it(remote: bool) {
    let bench = Bench::new();
    let seeded = bench.directory(SOURCE).await;
    let env = bench.placed("env", &seeded, remote).await;
    let copy = bench.path("env/copies/0/7");
    assert!(!exists(&env, &copy).await.unwrap());
    fs::create_dir_all(env.workspace().join(".refrain")).unwrap();
    fs::write(env.workspace().join(".refrain/note"), "kept").unwrap();
    let before = Snapshot::of(env.workspace()).unwrap();
    fork(&env, env.workspace(), &copy).await.unwrap();
    assert!(exists(&env, &copy).await.unwrap());
    shell(
        env.workspace(),
        "echo half > half; rm -rf .git .refrain; mkdir -p locked/in && touch locked/in/f && chmod 500 locked/in; : > a.txt",
    );
    // Twice: what has been set back may be cut off again.
    for _ in 0..2 {
        set_back(&env, &copy, env.workspace()).await.unwrap();
        assert_eq!(Snapshot::of(env.workspace()).unwrap().fingerprint(), before.fingerprint());
        assert!(env.workspace().join(".git/HEAD").is_file());
        assert_eq!(fs::read_to_string(env.workspace().join(".refrain/note")).unwrap(), "kept");
        shell(env.workspace(), "echo more > half");
    }
}

#[tokio::test]
async fn a_collection_and_a_baseline_of_an_earlier_host_are_read_again() {
    for remote in [false, true] {
        let bench = Bench::new();
        let seeded = bench.directory(SOURCE).await;
        let env = bench.placed("env", &seeded, remote).await;
        let baseline = bench.path("baseline");
        assert_eq!(rebased_before(&env, &seeded, &baseline).await.unwrap(), seeded, "there was no setup script");
        fs::write(env.workspace().join("made-by-setup"), "x").unwrap();
        let rebased = rebase(&env, &seeded, &baseline).await.unwrap();
        let again = rebased_before(&env, &seeded, &baseline).await.unwrap();
        assert_eq!((&again.tree, again.baseline.fingerprint()), (&rebased.tree, rebased.baseline.fingerprint()));
        fs::write(env.workspace().join("made-by-agent"), "y").unwrap();
        let first = collect(&env, &rebased, &bench.path("final")).await.unwrap();
        let second = collected_before(&env, &again, &bench.path("final")).await.unwrap();
        assert_eq!((second.diff, second.tree, second.changed), (first.diff, first.tree, true), "remote: {remote}");
        assert_eq!(second.snapshot.fingerprint(), first.snapshot.fingerprint());
    }
}

#[tokio::test]
async fn links_to_host_files_are_copied_as_links() {
    let bench = Bench::new();
    let seeded = bench.directory(SOURCE).await;
    let secret = bench.path("host-secret");
    fs::write(&secret, "SECRET").unwrap();
    fs::create_dir(bench.path("host-dir")).unwrap();
    fs::write(bench.path("host-dir/file"), "SECRET").unwrap();
    let env = bench.placed("env", &seeded, false).await;
    symlink(&secret, env.workspace().join("stolen")).unwrap();
    fs::remove_dir_all(env.workspace().join("d")).unwrap();
    symlink(bench.path("host-dir"), env.workspace().join("d")).unwrap();
    let collected = collect(&env, &seeded, &bench.path("out")).await.unwrap();
    assert!(!String::from_utf8_lossy(&collected.diff).contains("SECRET"));
    assert!(collected.tree.join("d").symlink_metadata().unwrap().is_symlink());
    check_patch(&bench, &seeded, &collected);
}

#[tokio::test]
async fn each_collection_is_written_once() {
    let bench = Bench::new();
    let seeded = bench.directory(SOURCE).await;
    let env = bench.placed("env", &seeded, false).await;
    fs::write(env.workspace().join("a.txt"), "good").unwrap();
    let first = collect(&env, &seeded, &bench.path("out")).await.unwrap();
    fs::write(env.workspace().join("a.txt"), "bad").unwrap();
    collect(&env, &seeded, &bench.path("out")).await.unwrap_err();
    assert_eq!(fs::read_to_string(first.tree.join("a.txt")).unwrap(), "good");
}

#[tokio::test]
async fn a_huge_sparse_file_fills_neither_disk_nor_patch() {
    let bench = Bench::new();
    let seeded = bench.directory(SOURCE).await;
    let env = bench.placed("env", &seeded, false).await;
    shell(env.workspace(), "truncate -s 1T huge; truncate -s 64M large");
    let collected = collect(&env, &seeded, &bench.path("out")).await.unwrap();
    assert!(!collected.tree.join("huge").exists());
    assert_eq!(shell(&collected.tree, "stat -c '%s %b' large").trim(), "67108864 0");
    let notes = collected.stats.notes.join("\n");
    assert!(notes.contains("huge has 1099511627776 bytes") && notes.contains("large new, not shown"), "{notes}");
    assert!(collected.diff.len() < 1000);
}

#[tokio::test]
async fn what_a_setup_script_makes_is_not_the_agents_work() {
    let bench = Bench::new();
    let seeded = bench.directory(SOURCE).await;
    let env = bench.placed("env", &seeded, false).await;
    let same = rebase(&env, &seeded, &bench.path("setup0")).await.unwrap();
    assert!(Arc::ptr_eq(&same, &seeded));
    shell(env.workspace(), "mkdir deps; echo lib > deps/lib");
    let after = rebase(&env, &seeded, &bench.path("setup1")).await.unwrap();
    fs::write(env.workspace().join("mine"), "work\n").unwrap();
    let collected = collect(&env, &after, &bench.path("out")).await.unwrap();
    assert_eq!(collected.stats.files_changed, 1);
    assert!(String::from_utf8_lossy(&collected.diff).contains("+++ b/mine"));
}

#[test_case(false; "on the host")]
#[test_case(true; "inside")]
#[tokio::test]
async fn forks_are_made_merged_and_discarded(remote: bool) {
    let bench = Bench::new();
    let seeded = bench.directory(SOURCE).await;
    let env = bench.placed("env", &seeded, remote).await;
    let main = env.workspace().to_owned();
    shell(&main, "mkdir .refrain; echo main > .refrain/notes; echo old > old.txt; rm -rf d");
    let copy = bench.path("env/fork-1");
    fork(&env, &main, &copy).await.unwrap();
    assert_eq!(shell(&copy, "git rev-parse HEAD").trim(), seeded.base_commit);
    assert_eq!(fs::read_to_string(copy.join(".refrain/notes")).unwrap(), "main\n");
    shell(
        &copy,
        "rm old.txt; echo won > ./-new; chmod +x ./-new; git commit -qam fork; echo fork > .refrain/notes; ln -s /etc/passwd l",
    );
    shell(
        &main,
        "mkdir -p shut/in; echo x > shut/in/f; chmod 000 shut/in shut; mkdir fixed; touch fixed/f; chmod 500 fixed",
    );
    merge(&env, &copy, &main).await.unwrap();
    assert!(!main.join("old.txt").exists() && main.join("l").symlink_metadata().unwrap().is_symlink());
    assert_eq!(fs::metadata(main.join("-new")).unwrap().permissions().mode() & 0o100, 0o100);
    assert_eq!(shell(&main, "git rev-parse HEAD").trim(), seeded.base_commit, "the repository stays");
    assert_eq!(fs::read_to_string(main.join(".refrain/notes")).unwrap(), "main\n");
    shell(&copy, "mkdir shut; touch shut/f; chmod 000 shut");
    discard(&env, &copy).await.unwrap();
    discard(&env, &copy).await.unwrap();
    assert!(!copy.exists());
    assert!(discard(&env, &main).await.unwrap_err().is_misuse() && main.exists());
}

#[test_case(false; "on the host")]
#[test_case(true; "inside")]
#[tokio::test]
async fn scripts_read_what_is_in_the_workspace_and_nothing_else(remote: bool) {
    let bench = Bench::new();
    let seeded = bench.directory(SOURCE).await;
    let env = bench.placed("env", &seeded, remote).await;
    shell(
        env.workspace(),
        "ln -s /etc out; ln -s ../.. up; ln -s d inside; ln -s nowhere dangling; ln -s l2 l1; ln -s l1 l2; mkfifo pipe",
    );
    let files = WorkspaceFiles::new(&env, env.workspace());
    let read = async |path: &str| files.read(path).await;
    assert_eq!(read("d/b.txt").await.unwrap().unwrap(), b"deep\n");
    assert_eq!(read("./d//b.txt").await.unwrap().unwrap(), b"deep\n");
    assert_eq!(read("inside/b.txt").await.unwrap().unwrap(), b"deep\n");
    assert_eq!(read("link").await.unwrap().unwrap(), b"one\ntwo\nthree\n");
    assert_eq!(read("bin").await.unwrap().unwrap(), [0, 1, 2]);
    for absent in ["nothing", "dangling", "a.txt/x", "d/none/x", "l1"] {
        assert_eq!(read(absent).await.unwrap(), None, "{absent}");
        assert!(!files.exists(absent).await.unwrap(), "{absent}");
    }
    for wrong in ["out/passwd", "up/x", "/etc/passwd", "../x", "d/../../x", "a\0b", "out"] {
        assert!(read(wrong).await.unwrap_err().is_misuse(), "{wrong}");
        assert!(files.exists(wrong).await.unwrap_err().is_misuse(), "{wrong}");
        assert!(files.list(wrong).await.unwrap_err().is_misuse(), "{wrong}");
    }
    for no_file in ["d", "pipe", ""] {
        assert!(read(no_file).await.unwrap_err().is_misuse(), "{no_file}");
        assert!(files.exists(no_file).await.unwrap(), "{no_file}");
    }
    assert_eq!(files.list("d").await.unwrap().unwrap(), ["b.txt"]);
    assert_eq!(files.list("inside").await.unwrap().unwrap(), ["b.txt"]);
    assert_eq!(files.list("a.txt").await.unwrap(), None);
    let top = files.list("").await.unwrap().unwrap();
    assert!(top.contains(&".gitignore".to_owned()) && !top.contains(&".git".to_owned()) && top.is_sorted());
}

#[test_case(false; "on the host")]
#[test_case(true; "inside")]
#[tokio::test]
async fn scripts_find_files_by_pattern(remote: bool) {
    let bench = Bench::new();
    let seeded = bench.directory("mkdir -p src/x/y other; touch src/a.rs src/x/b.rs src/x/y/c.rs src/x/y/d.txt other/e.rs; ln -s ../src other/l").await;
    let env = bench.placed("env", &seeded, remote).await;
    shell(env.workspace(), "git init -q src/x; touch src/x/.git/f.rs $'new\\nline.rs'");
    let files = WorkspaceFiles::new(&env, env.workspace());
    assert_eq!(files.glob("src/**/*.rs").await.unwrap(), ["src/a.rs", "src/x/b.rs", "src/x/y/c.rs"]);
    assert_eq!(files.glob("src/*.rs").await.unwrap(), ["src/a.rs"]);
    assert_eq!(files.glob("*.rs").await.unwrap(), ["new\nline.rs"]);
    assert_eq!(files.glob("other/*").await.unwrap(), ["other/e.rs", "other/l"]);
    assert_eq!(files.glob("**/.git/**").await.unwrap(), Vec::<String>::new());
    assert!(files.glob("a{b").await.unwrap_err().is_misuse());
}

#[test_case(false; "on the host")]
#[test_case(true; "inside")]
#[tokio::test]
async fn scripts_write_below_their_scratch_only(remote: bool) {
    let bench = Bench::new();
    let seeded = bench.directory(SOURCE).await;
    let env = bench.placed("env", &seeded, remote).await;
    let files = WorkspaceFiles::new(&env, env.workspace());
    files.write("notes/round 1.md", b"\0text").await.unwrap();
    files.write("notes/round 1.md", b"again").await.unwrap();
    assert_eq!(fs::read(env.workspace().join(".refrain/notes/round 1.md")).unwrap(), b"again");
    let long = ["n".repeat(256), "n/".repeat(2001)];
    // Among them a folder, something below a file, and names that no file system has.
    let wrong = ["../a.txt", "/etc/x", "", ".", "x/../../y", "a\0", "notes", "notes/round 1.md/x", &long[0], &long[1]];
    for wrong in wrong {
        assert!(files.write(wrong, b"x").await.unwrap_err().is_misuse(), "{wrong}");
    }
    files.write(&"n".repeat(255), b"x").await.unwrap();
    let outside = bench.path("outside");
    fs::write(&outside, "untouched").unwrap();
    fs::create_dir(bench.path("outside-dir")).unwrap();
    symlink(&outside, env.workspace().join(".refrain/trap")).unwrap();
    symlink(bench.path("outside-dir"), env.workspace().join(".refrain/dir")).unwrap();
    files.write("trap", b"mine").await.unwrap();
    assert_eq!(fs::read_to_string(&outside).unwrap(), "untouched");
    assert!(files.write("dir/x", b"x").await.unwrap_err().is_misuse());
    fs::remove_dir_all(env.workspace().join(".refrain")).unwrap();
    symlink(bench.path("outside-dir"), env.workspace().join(".refrain")).unwrap();
    assert!(files.write("x", b"x").await.unwrap_err().is_misuse());
    assert_eq!(fs::read_dir(bench.path("outside-dir")).unwrap().count(), 0);
    assert!(!collect(&env, &seeded, &bench.path("out")).await.unwrap().changed);
}

#[test_case(false; "on the host")]
#[test_case(true; "inside")]
#[tokio::test]
async fn scripts_read_files_up_to_a_limit(remote: bool) {
    let bench = Bench::new();
    let seeded = bench.cache.prepare(&task("t", Seed::Empty, None)).await.unwrap();
    let env = bench.placed("env", &seeded, remote).await;
    shell(env.workspace(), "truncate -s 16M fits; truncate -s 16777217 over");
    let files = WorkspaceFiles::new(&env, env.workspace());
    assert_eq!(files.read("fits").await.unwrap().unwrap().len(), 16 * 1024 * 1024);
    let error = files.read("over").await.unwrap_err();
    assert!(error.is_misuse() && error.to_string().contains("16777216"), "{error}");
}
