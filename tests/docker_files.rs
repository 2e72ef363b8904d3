//! Files in and out of real containers, shaped by an agent that means harm.

#![cfg(feature = "docker")]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

mod docker;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use docker::{BUSYBOX, containers, docker, runtime, spec};
use refrain::domain::{ContainerOptions, Network};
use refrain::runtime::{Environment, EnvironmentSpec, Runtime, RuntimeError};

/// A container with a folder on the host for what goes in and out.
struct Bench {
    dir: tempfile::TempDir,
    env: Box<dyn Environment>,
    id: String,
}

impl Bench {
    /// Opens a container; `None` where there is no daemon.
    async fn open(name: &str) -> Option<Self> {
        Self::open_with(name, true).await
    }

    async fn open_with(name: &str, read_only: bool) -> Option<Self> {
        let runtime = runtime().await?;
        let dir = tempfile::tempdir().unwrap();
        let options = ContainerOptions { read_only, network: Network::None, ..ContainerOptions::default() };
        let spec = EnvironmentSpec { container: options, ..spec(name, BUSYBOX, dir.path()) };
        let env = runtime.open(spec).await.unwrap();
        let id = containers(name).pop().unwrap();
        Some(Self { dir, env, id })
    }

    /// Runs a script as the agent does, and returns what it printed.
    fn sh(&self, script: &str) -> String {
        docker(&["exec", "-u", "1000:1000", "-w", "/work", &self.id, "sh", "-c", script])
    }

    fn host(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    async fn get(&self, from: &str, to: &str) -> Result<Vec<String>, RuntimeError> {
        self.env.get(Path::new(from), &self.host(to)).await
    }

    async fn put(&self, from: &str, to: &str) -> Result<(), RuntimeError> {
        self.env.put(&self.host(from), Path::new(to)).await
    }

    async fn close(self) {
        self.env.close().await.unwrap();
    }
}

fn file_error(result: Result<impl std::fmt::Debug, RuntimeError>) -> (PathBuf, String) {
    match result {
        Err(RuntimeError::File { path, source, .. }) => (path, source.to_string()),
        other => panic!("no file error: {other:?}"),
    }
}

/// A tree with everything that may go in.
fn seed(root: &Path) {
    fs::create_dir_all(root.join("a/b")).unwrap();
    fs::write(root.join("a/b/run"), "#!/bin/sh\necho ran\n").unwrap();
    fs::set_permissions(root.join("a/b/run"), fs::Permissions::from_mode(0o4711)).unwrap();
    fs::write(root.join("data"), "x").unwrap();
    fs::set_permissions(root.join("data"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::hard_link(root.join("data"), root.join("again")).unwrap();
    symlink("a/b/", root.join("link")).unwrap();
    symlink("/etc/passwd", root.join("out")).unwrap();
    fs::write(root.join(OsStr::from_bytes(b"odd \xff\nname")), "odd").unwrap();
    let long = root.join("l".repeat(200)).join("m".repeat(255));
    fs::create_dir_all(&long).unwrap();
    fs::write(long.join("n"), "long").unwrap();
    let sparse = fs::File::create(root.join("sparse")).unwrap();
    sparse.set_len(5 << 20).unwrap();
    fs::create_dir(root.join("empty")).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_goes_in_as_the_agents_and_comes_back_as_it_was() {
    for read_only in [true, false] {
        let name = format!("files-tree-{read_only}");
        let Some(bench) = Bench::open_with(&name, read_only).await else { return };
        seed(&bench.host("seed"));
        bench.put("seed", "/work/new/tree").await.unwrap();

        let stat = bench.sh("cd new/tree && stat -c '%u:%g %a %n' . .. a a/b/run data again empty && ./a/b/run");
        let expected = [
            "1000:1000 755 .",
            "1000:1000 755 ..",
            "1000:1000 755 a",
            "1000:1000 755 a/b/run",
            "1000:1000 644 data",
            "1000:1000 644 again",
            "1000:1000 755 empty",
            "ran",
        ];
        assert_eq!(stat, expected.join("\n"));
        assert_eq!(bench.sh("cat new/tree/l*/m*/n; readlink new/tree/link"), "longa/b/");

        assert_eq!(bench.get("/work/new/tree", "back").await.unwrap(), Vec::<String>::new());
        let back = bench.host("back");
        assert_eq!(fs::read(back.join(OsStr::from_bytes(b"odd \xff\nname"))).unwrap(), b"odd");
        assert_eq!(fs::read_link(back.join("link")).unwrap().as_os_str(), "a/b/");
        assert_eq!(fs::read_link(back.join("out")).unwrap(), Path::new("/etc/passwd"));
        assert_eq!(fs::metadata(back.join("a/b/run")).unwrap().mode() & 0o7777, 0o755);
        assert_eq!(fs::read(back.join("l".repeat(200)).join("m".repeat(255)).join("n")).unwrap(), b"long");
        assert!(back.join("empty").is_dir());
        let sparse = fs::metadata(back.join("sparse")).unwrap();
        assert_eq!((sparse.len(), sparse.blocks() < 100), (5 << 20, true));
        let time = |root: &str| fs::metadata(bench.host(root).join("data")).unwrap().mtime();
        assert_eq!(time("seed"), time("back"));
        bench.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn links_in_the_way_are_replaced_and_what_they_led_to_is_left_alone() {
    let Some(bench) = Bench::open("files-links").await else { return };
    bench.sh("mkdir real trap && ln -s ../real trap/sub && ln -s /refrain trap/root && echo old > target");
    bench.sh("ln -s target file && ln -s loop loop && echo plain > plain && mkdir folder && touch folder/x");
    let put = async |path: &str| bench.env.put_file(b"new", Path::new(path), false).await;
    for path in ["trap/sub/f", "trap/root/lease", "trap/root/a/b/c", "file", "loop/x", "plain/x", "folder"] {
        put(&format!("/work/{path}")).await.unwrap();
    }
    assert_eq!(bench.sh("ls -A real; cat target"), "old");
    let found = bench.sh("cat trap/sub/f trap/root/lease trap/root/a/b/c file loop/x plain/x folder");
    assert_eq!(found, "new".repeat(7));
    assert_ne!(docker(&["exec", &bench.id, "cat", "/refrain/lease"]), "new");

    fs::create_dir_all(bench.host("tree/sub")).unwrap();
    fs::write(bench.host("tree/sub/hidden"), "hidden").unwrap();
    bench.sh("mkdir into && ln -s ../real into/sub && ln -s into way");
    bench.put("tree", "/work/way").await.unwrap();
    bench.put("tree", "/work/into").await.unwrap();
    assert_eq!(bench.sh("ls -A real; cat way/sub/hidden into/sub/hidden; ls into"), "hiddenhiddensub");
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_belong_to_the_agent_in_its_own_folders_only() {
    let Some(bench) = Bench::open("files-owner").await else { return };
    let home = bench.env.home().to_string_lossy().into_owned();
    for path in [&format!("{home}/.config/agent/settings"), "/tmp/a/b", "/work-forks/1/f", "/refrain/bin/tool"] {
        bench.env.put_file(b"#!/bin/sh\necho tool", Path::new(path), true).await.unwrap();
    }
    let owners = bench.sh("stat -c %u $HOME/.config/agent/settings /tmp/a /tmp/a/b /work-forks/1/f 2>&1; stat -c '%u %a' /refrain/bin /refrain/bin/tool; /refrain/bin/tool");
    let home_owner = docker(&["exec", "-u", "1000", &bench.id, "stat", "-c", "%u", &format!("{home}/.config")]);
    assert_eq!(home_owner, "1000");
    assert!(owners.ends_with("1000\n1000\n1000\n0 755\n0 755\ntool"), "{owners}");
    // The image's own files are read-only.
    let (path, said) = file_error(bench.env.put_file(b"x", Path::new("/opt/x/y"), false).await);
    assert_eq!((path.as_path(), said.contains("read-only")), (Path::new("/opt/x/y"), true), "{said}");
    // So it is said of a tree of which the daemon reads no more than the beginning.
    fs::create_dir(bench.host("large")).unwrap();
    fs::write(bench.host("large/file"), vec![1; 40 << 20]).unwrap();
    let (path, said) = file_error(bench.put("large", "/opt/x").await);
    assert_eq!((path.as_path(), said.contains("read-only")), (Path::new("/opt/x"), true), "{said}");
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn outside_its_folders_new_files_are_roots() {
    let Some(bench) = Bench::open_with("files-outside", false).await else { return };
    bench.env.put_file(b"x", Path::new("/opt/new/file"), false).await.unwrap();
    assert_eq!(bench.sh("stat -c '%u %a' /opt /opt/new /opt/new/file"), "0 755\n0 755\n0 644");
    docker(&["exec", &bench.id, "ln", "-s", "/etc", "/opt/link"]);
    let (_, said) = file_error(bench.env.put_file(b"x", Path::new("/opt/link/file"), false).await);
    assert_eq!(said, "`/opt/link` is a symlink, which is not followed");
    assert_eq!(bench.sh("ls /etc/file 2>/dev/null"), "");
    for path in ["relative", "/work/../etc/x", "/"] {
        file_error(bench.env.put_file(b"x", Path::new(path), false).await);
    }
    bench.close().await;
}

/// What an agent may leave to harm whoever copies it.
const HOSTILE: &str = r#"
mkfifo fifo
mkdir -p deep locked plain && cd plain && echo one > one && ln one two && ln -s /etc/shadow link && ln link link2
cd .. && echo secret > locked/file && chmod 000 locked/file locked
cp /bin/busybox suid && chmod 6755 suid
ln -s / root && ln -s .. up && ln -s loop loop && ln -s ../../../../../../etc/passwd passwd
i=0; while [ $i -lt 300 ]; do ln -s l$((i+1)) l$i; i=$((i+1)); done
long=$(head -c 200 /dev/zero | tr '\0' y)
printf forged > "$(printf 'x\n10 size=0\n18 path=..evil!!\n%s' "$long")"
printf utf > "$(printf '\303\244\377')"
d=deep; i=0; while [ $i -lt 15 ]; do d=$d/$long; i=$((i+1)); done; mkdir -p $d && echo bottom > $d/f
d=many; i=0; while [ $i -lt 140 ]; do d=$d/m; i=$((i+1)); done; mkdir -p $d && echo m > $d/f
dd if=/dev/zero of=holes bs=1 count=0 seek=300M 2>/dev/null; printf end >> holes
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_tree_comes_out_without_harm() {
    let Some(bench) = Bench::open("files-hostile").await else { return };
    bench.sh(HOSTILE);
    let device = "mknod /work/device c 1 3 && mknod /work/disk b 7 0";
    // The container itself may not; another one on the same volume may.
    docker(&["run", "--rm", "-u", "0", "--volumes-from", &bench.id, BUSYBOX, "sh", "-c", device]);
    let mut notes = bench.get("/work", "back").await.unwrap();
    notes.sort();
    assert_eq!(notes.len(), 4, "{notes:?}");
    assert_eq!(
        notes[..3],
        ["left out `device`: it is a device", "left out `disk`: it is a device", "left out `fifo`: it is a named pipe",]
    );
    assert!(notes[3].ends_with("the tree is too deep"), "{}", notes[3]);

    let back = bench.host("back");
    let read = |path: &str| fs::read(back.join(path)).unwrap();
    assert_eq!((read("plain/one"), read("plain/two")), (b"one\n".to_vec(), b"one\n".to_vec()));
    assert_eq!(fs::metadata(back.join("plain/one")).unwrap().nlink(), 1);
    assert_eq!(fs::read_link(back.join("plain/link2")).unwrap(), Path::new("/etc/shadow"));
    assert_eq!(read("locked/file"), b"secret\n");
    assert_eq!(fs::metadata(back.join("suid")).unwrap().mode() & 0o7777, 0o755);
    assert_eq!(fs::read_link(back.join("root")).unwrap(), Path::new("/"));
    assert_eq!(fs::read_link(back.join("l299")).unwrap(), Path::new("l300"));
    assert_eq!(read(&format!("x\n10 size=0\n18 path=..evil!!\n{}", "y".repeat(200))), b"forged");
    assert_eq!(fs::read(back.join(OsStr::from_bytes(b"\xc3\xa4\xff"))).unwrap(), b"utf");
    let deep = "deep".to_owned() + &format!("/{}", "y".repeat(200)).repeat(15);
    assert_eq!(read(&format!("{deep}/f")), b"bottom\n");
    let holes = fs::metadata(back.join("holes")).unwrap();
    assert_eq!((holes.len(), holes.blocks() < 1000), ((300 << 20) + 3, true));
    assert_no_special_files(&back);
    bench.close().await;
}

fn assert_no_special_files(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let kind = path.symlink_metadata().unwrap().file_type();
        assert!(!kind.is_fifo() && !kind.is_socket() && !kind.is_char_device() && !kind.is_block_device());
        if kind.is_dir() {
            assert_no_special_files(&path);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_is_a_link_or_is_reached_over_one_is_not_read() {
    let Some(bench) = Bench::open("files-source").await else { return };
    bench
        .sh("mkdir real && echo x > real/f && ln -s real link && ln -s /etc etc && mkdir real/sub && touch real/sub/g");
    for (path, said) in [
        ("/work/link", "it is a symlink, which is not followed"),
        ("/work/etc", "it is a symlink, which is not followed"),
        ("/work/link/sub", "`/work/link` is a symlink, which is not followed"),
        ("/work/real/f", "it is no folder"),
        ("/work/absent", "there is no such path in the container"),
        ("/work/absent/too", "there is no such path in the container"),
    ] {
        let (found, why) = file_error(bench.get(path, "back").await);
        assert_eq!((found.as_path(), why.as_str()), (Path::new(path), said));
    }
    assert_eq!(bench.get("/work/real/sub", "good").await.unwrap(), Vec::<String>::new());
    assert!(bench.host("good/g").is_file());
    // Root's folders can be read as well, by the host alone.
    bench.get("/etc", "image").await.unwrap();
    assert!(bench.host("image/passwd").is_file());
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_walk_that_fails_in_the_middle_says_where() {
    let Some(bench) = Bench::open("files-middle").await else { return };
    fs::create_dir_all(bench.host("tree/z")).unwrap();
    fs::write(bench.host("tree/a"), vec![1; 3 << 20]).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(bench.host("tree/z/socket")).unwrap();
    let (path, said) = file_error(bench.put("tree", "/work/t").await);
    assert_eq!(path, bench.host("tree/z/socket"));
    assert_eq!(said, "it is a socket; only files, folders and symlinks are copied");
    let (path, _) = file_error(bench.put("none", "/work/t").await);
    assert_eq!(path, bench.host("none"));
    // The container is as good as before.
    bench.env.put_file(b"x", Path::new("/work/after"), false).await.unwrap();
    assert_eq!(bench.sh("cat after"), "x");
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_change_while_they_are_read_do_no_harm() {
    let Some(bench) = Bench::open("files-change").await else { return };
    let write = "while :; do head -c 9000000 /dev/urandom > a; : > a; head -c 5000 a > b; rm -f c; cp b c; done";
    docker(&["exec", "-d", "-u", "1000", "-w", "/work", &bench.id, "sh", "-c", write]);
    for round in 0..8 {
        let to = format!("back{round}");
        match bench.get("/work", &to).await {
            Ok(notes) => assert_eq!(notes, Vec::<String>::new()),
            Err(RuntimeError::File { source, .. }) => assert!(source.to_string().contains("ends early"), "{source}"),
            Err(other) => panic!("{other}"),
        }
        assert!(fs::read_dir(bench.host(&to)).unwrap().count() <= 3);
    }
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_container_still_gives_its_files_and_one_that_is_gone_is_lost() {
    let Some(bench) = Bench::open("files-lost").await else { return };
    bench.sh("echo last > words");
    docker(&["kill", &bench.id]);
    bench.get("/work", "back").await.unwrap();
    assert_eq!(fs::read(bench.host("back/words")).unwrap(), b"last\n");
    fs::create_dir(bench.host("tree")).unwrap();
    fs::write(bench.host("tree/f"), vec![0; 1 << 20]).unwrap();
    docker(&["rm", "-f", "-v", &bench.id]);
    let results = [
        bench.get("/work", "again").await.map(drop),
        bench.put("tree", "/work").await,
        bench.put("tree", "/opt/x").await,
        bench.env.put_file(b"x", Path::new("/work/f"), false).await,
    ];
    for result in results {
        assert!(matches!(result, Err(RuntimeError::Lost(_))), "{result:?}");
    }
    bench.close().await;
}
