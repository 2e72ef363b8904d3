use super::*;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};

fn copy(from: &Path, to: &Path) -> Vec<String> {
    fs::create_dir_all(to).expect("made");
    let to = Folder::open_trusted(to).expect("opens");
    Folder::open_trusted(from).expect("opens").copy(&to).expect("copies")
}

#[test]
fn links_stay_links_and_modes_keep_their_executable_bit() {
    let dir = tempfile::tempdir().expect("a folder");
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    fs::create_dir_all(from.join("a/b")).expect("made");
    fs::write(from.join("a/b/run"), "#!").expect("written");
    fs::set_permissions(from.join("a/b/run"), fs::Permissions::from_mode(0o700)).expect("set");
    fs::write(from.join("a/data"), "x").expect("written");
    symlink("/etc/passwd", from.join("out")).expect("linked");
    symlink("nowhere", from.join("a/dangling")).expect("linked");
    let odd = OsStr::from_bytes(b"odd \xff\nname");
    fs::write(from.join(odd), "odd").expect("written");

    assert_eq!(copy(&from, &to), Vec::<String>::new());
    assert_eq!(fs::read_link(to.join("out")).expect("a link"), Path::new("/etc/passwd"));
    assert_eq!(fs::read_link(to.join("a/dangling")).expect("a link"), Path::new("nowhere"));
    assert_eq!(fs::read(to.join(odd)).expect("there"), b"odd");
    let mode = |path: &str| fs::metadata(to.join(path)).expect("there").permissions().mode() & 0o100;
    assert_eq!((mode("a/b/run"), mode("a/data")), (0o100, 0));
}

#[test]
fn a_link_in_the_way_is_replaced_and_what_it_led_to_is_left_alone() {
    let dir = tempfile::tempdir().expect("a folder");
    let (from, to, outside) = (dir.path().join("from"), dir.path().join("to"), dir.path().join("outside"));
    for folder in [&from.join("tests"), &to, &outside] {
        fs::create_dir_all(folder).expect("made");
    }
    fs::write(from.join("tests/t"), "hidden").expect("written");
    fs::write(from.join("file"), "new").expect("written");
    fs::write(outside.join("precious"), "old").expect("written");
    symlink(&outside, to.join("tests")).expect("linked");
    symlink(outside.join("precious"), to.join("file")).expect("linked");

    copy(&from, &to);
    assert_eq!(fs::read(to.join("tests/t")).expect("there"), b"hidden");
    assert!(!outside.join("t").exists());
    assert_eq!(fs::read(outside.join("precious")).expect("there"), b"old");
    assert_eq!(fs::read(to.join("file")).expect("there"), b"new");
}

#[test]
fn pipes_and_sockets_are_named_and_left_out() {
    let dir = tempfile::tempdir().expect("a folder");
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    fs::create_dir_all(&from).expect("made");
    rustix::fs::mkfifoat(CWD, from.join("fifo"), Mode::from_raw_mode(0o600)).expect("made");
    let _socket = std::os::unix::net::UnixListener::bind(from.join("socket")).expect("bound");
    let notes = copy(&from, &to);
    assert_eq!(notes, ["left out `fifo`: it is a named pipe", "left out `socket`: it is a socket"]);
}

#[test]
fn trees_deeper_than_any_path_are_left_out_and_removed() {
    let dir = tempfile::tempdir().expect("a folder");
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    fs::create_dir(&from).expect("made");
    let mut folder = Folder::open_trusted(&from).expect("opens");
    for _ in 0..1200 {
        folder = folder.make(OsStr::new("deep")).expect("made");
    }
    let notes = copy(&from, &to);
    assert_eq!(notes.len(), 1);
    assert!(notes[0].ends_with("the tree is too deep"), "{}", notes[0]);
    remove(&from).expect("removed");
    assert!(!from.exists());
}

#[test]
fn read_only_folders_are_removed() {
    let dir = tempfile::tempdir().expect("a folder");
    let top = dir.path().join("top");
    fs::create_dir_all(top.join("locked/inner")).expect("made");
    fs::write(top.join("locked/inner/file"), "x").expect("written");
    for folder in ["locked/inner", "locked"] {
        fs::set_permissions(top.join(folder), fs::Permissions::from_mode(0o000)).expect("set");
    }
    remove(&top).expect("removed");
    assert!(!top.exists());
    remove(&top).expect("removing nothing is no error");
}
