//! Workspaces in real containers: placed, forked, merged, read by scripts and collected, with busybox's tools and GNU's.

#![cfg(feature = "docker")]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

mod docker;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use docker::{BUSYBOX, DEBIAN, runtime};
use refrain::domain::{ContainerOptions, Network, Task};
use refrain::runtime::docker::DockerRuntime;
use refrain::runtime::{Command, Environment, EnvironmentSpec, Output, Runtime};
use refrain::workspace::{
    Collected, SeedCache, Seeded, WorkspaceFiles, collect, collect_at, discard, fork, merge, place, place_tree,
};
use serde_json::json;
use test_case::test_case;
use tokio_util::sync::CancellationToken;

/// A container with a workspace.
struct Bench {
    dir: tempfile::TempDir,
    runtime: DockerRuntime,
    cache: SeedCache,
    env: Box<dyn Environment>,
}

impl Bench {
    async fn open(name: &str, image: &str) -> Option<Self> {
        let runtime = runtime().await?;
        let dir = tempfile::tempdir().unwrap();
        let env = runtime.open(spec(name, image, dir.path())).await.unwrap();
        let cache = SeedCache::new(dir.path().join("cache"));
        Some(Self { dir, runtime, cache, env })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Prepares a seed from a folder of plain files.
    async fn seed(&self, files: &[(&str, &str)]) -> Arc<Seeded> {
        for (path, content) in files {
            let path = self.path("source").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        self.cache.prepare(&task(&json!({"kind": "directory", "path": self.path("source")}), None)).await.unwrap()
    }

    /// Runs a script in the container, which must succeed, and returns what it printed.
    async fn sh(&self, script: &str) -> String {
        let command = Command::shell(script);
        let report = self.env.exec(&command, Output::capture(), &CancellationToken::new()).await.unwrap();
        assert!(report.success(), "{script}: {report:?}");
        String::from_utf8(report.stdout.bytes).unwrap()
    }

    async fn collect(&self, seeded: &Seeded, to: &str) -> Collected {
        collect(&*self.env, seeded, &self.path(to)).await.unwrap()
    }

    async fn close(self) {
        self.env.close().await.unwrap();
    }
}

/// Without a network: nothing here needs one.
fn spec(name: &str, image: &str, scratch: &Path) -> EnvironmentSpec {
    let container = ContainerOptions { network: Network::None, ..ContainerOptions::default() };
    EnvironmentSpec { container, ..docker::spec(name, image, scratch) }
}

fn task(seed: &serde_json::Value, mutation: Option<&str>) -> Task {
    serde_json::from_value(json!({
        "id": "t", "name": "t", "track": "swe", "difficulty": null, "description": null, "seed": seed,
        "mutation": mutation, "setup_script": null, "prompt": "Do it.", "checks": [], "test_command": null,
        "hidden": {"kind": "none"}, "fail_to_pass": [], "pass_to_pass": [], "expected_files": [], "rubric": null,
        "timeout": {"secs": 600, "nanos": 0}, "multi_session": true, "evaluate": "fresh", "phases": [],
        "metadata": {}, "source": "/tasks/t.yaml",
    }))
    .unwrap()
}

fn diff(collected: &Collected) -> String {
    String::from_utf8_lossy(&collected.diff).into_owned()
}

#[test_case(BUSYBOX; "busybox")]
#[test_case(DEBIAN; "debian")]
#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_is_placed_changed_and_collected(image: &str) {
    let Some(bench) = Bench::open("ws-collect", image).await else { return };
    let seeded = bench.seed(&[("a.txt", "one\ntwo\n"), ("d/b.txt", "deep\n"), ("gone", "x\n")]).await;
    place(&seeded, &*bench.env).await.unwrap();
    assert_eq!(
        bench.sh("cat .git/refs/heads/main .git/packed-refs 2>/dev/null | grep -c .; ls -A").await,
        "2\n.git\na.txt\nd\ngone\n"
    );
    let untouched = bench.collect(&seeded, "before").await;
    assert!(!untouched.changed && untouched.diff.is_empty());
    assert_eq!(untouched.stats.notes, Vec::<String>::new());

    bench
        .sh("echo three >> a.txt; rm gone; chmod 755 d/b.txt; mkdir -p new .refrain; printf 'x\\000y' > new/bin; ln -s /etc/passwd l
            mkfifo pipe; echo note > .refrain/n; rm -rf .git; mkdir .git; echo junk > .git/HEAD; chmod 000 new/bin d")
        .await;
    bench.env.quiesce().await.unwrap();
    let collected = bench.collect(&seeded, "after").await;
    let paths: Vec<_> =
        collected.snapshot.entries().map(|(path, _)| String::from_utf8_lossy(path).into_owned()).collect();
    assert_eq!(paths, ["a.txt", "d/b.txt", "l", "new/bin"]);
    assert_eq!(collected.stats.notes, ["left out `pipe`: it is a named pipe"]);
    let patch = diff(&collected);
    for line in ["+three", "deleted file mode 100644", "new mode 100755", "new file mode 120000", "GIT binary patch"] {
        assert!(patch.contains(line), "{line}: {patch}");
    }
    // What was collected goes into a fresh container as it is.
    let fresh = bench.runtime.open(spec("ws-fresh", image, &bench.path("fresh"))).await.unwrap();
    place_tree(&collected.tree, &seeded.git_template, &*fresh).await.unwrap();
    let again = collect(&*fresh, &seeded, &bench.path("again")).await.unwrap();
    assert_eq!(again.snapshot.fingerprint(), collected.snapshot.fingerprint());
    fresh.close().await.unwrap();
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn git_in_the_container_takes_the_repository_as_the_agents_own() {
    let Some(bench) = Bench::open("ws-git", DEBIAN).await else { return };
    let seeded = bench.seed(&[("a.txt", "one\n"), ("run.sh", "#!/bin/sh\n")]).await;
    place(&seeded, &*bench.env).await.unwrap();
    assert_eq!(
        bench.sh("git status --porcelain; git log --format='%H %s'").await,
        format!("{} Base\n", seeded.base_commit)
    );
    bench.sh("echo two >> a.txt && git -c user.name=a -c user.email=a@b commit -qam more && git fsck --strict").await;
    let collected = bench.collect(&seeded, "out").await;
    assert!(diff(&collected).contains("+two"), "{}", diff(&collected));
    bench.close().await;
}

#[test_case(BUSYBOX; "busybox")]
#[test_case(DEBIAN; "debian")]
#[tokio::test(flavor = "multi_thread")]
async fn forks_are_made_merged_and_discarded(image: &str) {
    let Some(bench) = Bench::open("ws-fork", image).await else { return };
    let (env, seeded) =
        (&*bench.env, bench.seed(&[("a.txt", "one\n"), ("d/b.txt", "deep\n"), ("old.txt", "old\n")]).await);
    place(&seeded, env).await.unwrap();
    let (main, copy) = (env.workspace().to_owned(), PathBuf::from("/work-forks/1"));
    bench.sh("mkdir .refrain && echo main > .refrain/notes && rm -r d && mkdir shut && echo s > shut/f && chmod 000 shut/f shut").await;
    fork(env, &main, &copy).await.unwrap();
    bench.sh("cd /work-forks/1 && cat .refrain/notes && test -f .git/HEAD && chmod u+rwx shut && chmod u+r shut/f && grep -q s shut/f").await;
    bench
        .sh("cd /work-forks/1 && rm old.txt && echo won > ./-new && chmod +x ./-new && echo fork > .refrain/notes && ln -s /etc/passwd l
            mkdir blind && echo b > blind/f && chmod 000 blind/f blind
            cd /work && mkdir -p fixed/in && touch fixed/in/f && chmod 500 fixed/in fixed && echo mine > .git/mine")
        .await;
    merge(env, &copy, &main).await.unwrap();
    assert_eq!(
        bench.sh("ls -A; cat .refrain/notes .git/mine").await,
        "-new\n.git\n.refrain\na.txt\nblind\nl\nshut\nmain\nmine\n"
    );

    // A fork is compared with the same baseline.
    let forked = collect_at(env, &copy, &seeded, &bench.path("forked")).await.unwrap();
    let merged = bench.collect(&seeded, "merged").await;
    assert_eq!(forked.snapshot.fingerprint(), merged.snapshot.fingerprint());
    assert!(diff(&merged).contains("+won"), "{}", diff(&merged));
    assert!(merged.snapshot.get(b"blind/f").is_some());

    discard(env, &copy).await.unwrap();
    discard(env, &copy).await.unwrap();
    assert_eq!(bench.sh("ls -A /work-forks").await, "");
    assert!(discard(env, &main).await.unwrap_err().is_misuse());
    bench.close().await;
}

#[test_case(BUSYBOX; "busybox")]
#[test_case(DEBIAN; "debian")]
#[tokio::test(flavor = "multi_thread")]
async fn scripts_read_list_and_find_inside_only(image: &str) {
    let Some(bench) = Bench::open("ws-read", image).await else { return };
    let seeded = bench.seed(&[("a.txt", "one\n"), ("d/b.txt", "deep\n"), ("src/x/b.rs", ""), ("src/a.rs", "")]).await;
    place(&seeded, &*bench.env).await.unwrap();
    bench
        .sh("ln -s /etc out; ln -s ../.. up; ln -s d inside; ln -s nowhere dangling; ln -s l2 l1; ln -s l1 l2; mkfifo pipe
            touch \"$(printf 'new\\nline.rs')\" -- -rf; printf '\\000\\001' > bin; mkdir -p src/x/.git && touch src/x/.git/f.rs
            head -c 16777217 /dev/zero > over")
        .await;
    let files = WorkspaceFiles::new(&*bench.env, bench.env.workspace());
    let read = async |path: &str| files.read(path).await;
    for (path, content) in [
        ("d/b.txt", b"deep\n".as_slice()),
        ("./d//b.txt", b"deep\n"),
        ("inside/b.txt", b"deep\n"),
        ("bin", b"\0\x01"),
        ("-rf", b""),
    ] {
        assert_eq!(read(path).await.unwrap().as_deref(), Some(content), "{path}");
    }
    for absent in ["nothing", "dangling", "a.txt/x", "d/none/x", "l1"] {
        assert_eq!(read(absent).await.unwrap(), None, "{absent}");
        assert!(!files.exists(absent).await.unwrap(), "{absent}");
    }
    for wrong in ["out/passwd", "up/x", "/etc/passwd", "../x", "a\0b", "out"] {
        assert!(read(wrong).await.unwrap_err().is_misuse(), "{wrong}");
        assert!(files.exists(wrong).await.unwrap_err().is_misuse(), "{wrong}");
        assert!(files.list(wrong).await.unwrap_err().is_misuse(), "{wrong}");
    }
    for no_file in ["d", "pipe", "", "over"] {
        assert!(read(no_file).await.unwrap_err().is_misuse(), "{no_file}");
    }
    assert_eq!(files.list("inside").await.unwrap().unwrap(), ["b.txt"]);
    assert_eq!(files.list("a.txt").await.unwrap(), None);
    assert!(!files.list("").await.unwrap().unwrap().contains(&".git".to_owned()));
    assert_eq!(files.glob("**/*.rs").await.unwrap(), ["new\nline.rs", "src/a.rs", "src/x/b.rs"]);
    assert_eq!(files.glob("src/*.rs").await.unwrap(), ["src/a.rs"]);
    bench.close().await;
}

#[test_case(BUSYBOX; "busybox")]
#[test_case(DEBIAN; "debian")]
#[tokio::test(flavor = "multi_thread")]
async fn scripts_write_below_their_scratch_only(image: &str) {
    let Some(bench) = Bench::open("ws-write", image).await else { return };
    let seeded = bench.seed(&[("a.txt", "one\n")]).await;
    place(&seeded, &*bench.env).await.unwrap();
    let files = WorkspaceFiles::new(&*bench.env, bench.env.workspace());
    files.write("notes/round 1.md", b"\0text").await.unwrap();
    files.write("notes/round 1.md", b"again").await.unwrap();
    files.write("big", &vec![b'x'; 3 << 20]).await.unwrap();
    assert_eq!(bench.sh("cat '.refrain/notes/round 1.md'; wc -c < .refrain/big").await, format!("again{}\n", 3 << 20));
    bench.sh("echo old > outside; mkdir folder; ln -s ../outside .refrain/trap; ln -s ../folder .refrain/dir").await;
    files.write("trap", b"mine").await.unwrap();
    assert!(files.write("dir/x", b"x").await.unwrap_err().is_misuse());
    bench.sh("rm -r .refrain && ln -s folder .refrain").await;
    assert!(files.write("x", b"x").await.unwrap_err().is_misuse());
    assert_eq!(bench.sh("cat outside; ls -A folder").await, "old\n");
    bench.close().await;
}
