use super::*;
use crate::runtime::docker::transfer::unpack::unpack;
use crate::runtime::folder::Folder;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

const NOW: Timestamp = Timestamp::constant(1_700_000_000, 0);

fn pack(from: &Path, below: &str) -> io::Result<Vec<u8>> {
    let mut archive = Vec::new();
    let mut packer = Packer::new(&mut archive, 1000, NOW);
    packer.folders_to(Path::new(below))?;
    Folder::open_trusted(from)?
        .walk(&mut packer)
        .map_err(|error| io::Error::new(error.source.kind(), format!("{}: {}", error.at.display(), error.source)))?;
    packer.finish()?;
    Ok(archive)
}

#[test]
fn a_tree_that_was_packed_unpacks_as_it_was() {
    let dir = tempfile::tempdir().expect("a folder");
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    let deep = from.join("d".repeat(200)).join("e".repeat(200));
    fs::create_dir_all(&deep).expect("made");
    fs::create_dir(&to).expect("made");
    fs::write(deep.join("f"), "deep").expect("written");
    fs::write(from.join("run"), "#!").expect("written");
    fs::set_permissions(from.join("run"), fs::Permissions::from_mode(0o4711)).expect("set");
    fs::hard_link(from.join("run"), from.join("run2")).expect("linked");
    fs::write(from.join(OsStr::from_bytes(b"\xff\n")), "odd").expect("written");
    let targets = ["a/b/".to_owned(), "/etc//passwd".to_owned(), format!("./{}//.", "x/".repeat(200))];
    for (number, target) in targets.iter().enumerate() {
        symlink(target, from.join(format!("link{number}"))).expect("linked");
    }

    let archive = pack(&from, "work").expect("packs");
    let notes = unpack(&archive[..], &Folder::open_trusted(&to).expect("opens")).expect("unpacks");
    assert_eq!(notes, Vec::<String>::new());
    let relative = deep.strip_prefix(&from).expect("below");
    assert_eq!(fs::read(to.join(relative).join("f")).expect("there"), b"deep");
    assert_eq!(fs::read(to.join(OsStr::from_bytes(b"\xff\n"))).expect("there"), b"odd");
    assert_eq!(fs::read(to.join("run2")).expect("there"), b"#!");
    let mode = fs::metadata(to.join("run")).expect("there").permissions().mode();
    assert_eq!(mode & 0o7777, 0o755);
    for (number, target) in targets.iter().enumerate() {
        let found = fs::read_link(to.join(format!("link{number}"))).expect("a link");
        assert_eq!(found.as_os_str().as_bytes(), target.as_bytes());
    }
}

#[test]
fn everything_belongs_to_the_owner_and_the_way_there_is_made_of_folders() {
    let dir = tempfile::tempdir().expect("a folder");
    fs::write(dir.path().join("f"), "x").expect("written");
    let archive = pack(dir.path(), "a/b").expect("packs");
    let mut found = Vec::new();
    for entry in tar::Archive::new(&archive[..]).entries().expect("an archive") {
        let entry = entry.expect("an entry");
        let header = entry.header();
        let owner = (header.uid().expect("a user"), header.gid().expect("a group"));
        assert_eq!(owner, (1000, 1000));
        found.push((entry.path().expect("a path").display().to_string(), header.entry_type()));
    }
    let expected = [("a", EntryType::Directory), ("a/b", EntryType::Directory), ("a/b/f", EntryType::Regular)];
    assert_eq!(found, expected.map(|(path, kind)| (path.to_owned(), kind)));
}

#[test]
fn what_is_no_file_is_refused_with_its_path() {
    let dir = tempfile::tempdir().expect("a folder");
    let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).expect("bound");
    let error = pack(dir.path(), "").expect_err("refused").to_string();
    assert_eq!(error, "socket: it is a socket; only files, folders and symlinks are copied");
}
