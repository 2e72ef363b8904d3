use super::*;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use tar::Header;

/// An archive built member by member, with names that no writer of archives would let pass.
#[derive(Default)]
struct Tar(Vec<u8>);

impl Tar {
    fn work() -> Self {
        Self::default().add(EntryType::Directory, b"work/", b"", b"")
    }

    fn add(self, kind: EntryType, name: &[u8], target: &[u8], content: &[u8]) -> Self {
        self.sized(kind, name, target, (content, content.len() as u64, 0o644))
    }

    fn file(self, name: &[u8], content: &[u8]) -> Self {
        self.add(EntryType::Regular, name, b"", content)
    }

    fn sized(mut self, kind: EntryType, name: &[u8], target: &[u8], (content, size, mode): (&[u8], u64, u32)) -> Self {
        if name.len() > 100 {
            self = self.add(EntryType::GNULongName, b"@", b"", name);
        }
        let mut header = Header::new_gnu();
        let cut = name.len().min(100);
        header.as_old_mut().name[..cut].copy_from_slice(&name[..cut]);
        header.as_old_mut().linkname[..target.len()].copy_from_slice(target);
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(size);
        header.set_mtime(1_600_000_000);
        header.set_cksum();
        self.0.extend_from_slice(header.as_bytes());
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().div_ceil(512) * 512, 0);
        self
    }

    fn end(mut self) -> Vec<u8> {
        self.0.extend_from_slice(&[0; 1024]);
        self.0
    }
}

/// A folder `to` to unpack into, with a file beside it that must stay as it is.
struct Bed(tempfile::TempDir);

impl Bed {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        fs::create_dir(dir.path().join("to")).expect("made");
        fs::write(dir.path().join("precious"), "old").expect("written");
        Self(dir)
    }

    fn to(&self) -> PathBuf {
        self.0.path().join("to")
    }

    fn unpack(&self, archive: Tar) -> Result<Vec<String>, CopyError> {
        self.within(archive, Bounds::USUAL)
    }

    fn within(&self, archive: Tar, bounds: Bounds) -> Result<Vec<String>, CopyError> {
        let folder = Folder::open_trusted(&self.to()).expect("opens");
        let result = unpack_within(&archive.end()[..], &folder, bounds);
        assert_eq!(fs::read(self.0.path().join("precious")).expect("there"), b"old");
        let beside: Vec<_> = fs::read_dir(self.0.path()).expect("listed").collect();
        assert_eq!(beside.len(), 2, "{beside:?}");
        result
    }
}

#[test]
fn names_that_lead_out_are_left_out_and_the_rest_is_written() {
    let bed = Bed::new();
    let outside = bed.0.path().join("evil");
    let tar = Tar::work()
        .file(outside.as_os_str().as_bytes(), b"x")
        .file(b"work/../../evil", b"x")
        .file(b"../evil", b"x")
        .file(b"work/a/../../../evil", b"x")
        .file(b"work/./a//good", b"good");
    let notes = bed.unpack(tar).expect("unpacks");
    assert_eq!(notes.len(), 4);
    assert!(notes.iter().all(|note| note.ends_with("its name leads out of the tree")), "{notes:?}");
    assert_eq!(fs::read(bed.to().join("a/good")).expect("there"), b"good");
}

#[test]
fn a_link_is_never_written_through() {
    let bed = Bed::new();
    let outside = bed.0.path().as_os_str().as_bytes().to_vec();
    let tar = Tar::work()
        .add(EntryType::Symlink, b"work/out", &outside, b"")
        .file(b"work/out/evil", b"in a folder now")
        .add(EntryType::Symlink, b"work/file", b"../precious", b"")
        .file(b"work/file", b"replaced")
        .add(EntryType::Symlink, b"work/loop", b"loop", b"")
        .file(b"work/loop/x", b"x")
        .add(EntryType::Symlink, b"work/stays", b"/etc/passwd", b"");
    assert_eq!(bed.unpack(tar).expect("unpacks"), Vec::<String>::new());
    assert_eq!(fs::read(bed.to().join("out/evil")).expect("there"), b"in a folder now");
    assert!(!bed.0.path().join("evil").exists());
    assert_eq!(fs::read(bed.to().join("file")).expect("there"), b"replaced");
    assert_eq!(fs::read_link(bed.to().join("stays")).expect("a link"), Path::new("/etc/passwd"));
}

#[test]
fn a_farm_of_links_leads_nowhere() {
    let bed = Bed::new();
    let mut tar = Tar::work();
    for number in 0..500 {
        let (name, target) = (format!("work/l{number}"), format!("l{}", number + 1));
        tar = tar.add(EntryType::Symlink, name.as_bytes(), target.as_bytes(), b"");
    }
    tar = tar.add(EntryType::Symlink, b"work/l500", b"..", b"").file(b"work/l0/precious", b"x");
    bed.unpack(tar).expect("unpacks");
    assert_eq!(fs::read(bed.to().join("l0/precious")).expect("there"), b"x");
}

#[test]
fn further_names_become_copies_that_do_not_share_anything() {
    let bed = Bed::new();
    let tar = Tar::work()
        .sized(EntryType::Regular, b"work/a/first", b"", (b"same", 4, 0o4700))
        .add(EntryType::Link, b"work/b/second", b"work/a/first", b"")
        .add(EntryType::Link, b"work/a/first", b"work/a/first", b"")
        .add(EntryType::Symlink, b"work/link", b"/etc/shadow", b"")
        .add(EntryType::Link, b"work/other", b"work/link", b"")
        .add(EntryType::Link, b"work/none", b"work/missing", b"")
        .add(EntryType::Link, b"work/etc", b"/etc/passwd", b"")
        .add(EntryType::Link, b"work/up", b"work/../../precious", b"")
        .add(EntryType::Symlink, b"work/up2", b"..", b"")
        .add(EntryType::Link, b"work/up3", b"work/up2/precious", b"")
        .add(EntryType::Link, b"work/folder", b"work/a", b"");
    let notes = bed.unpack(tar).expect("unpacks");
    assert_eq!(notes.len(), 5, "{notes:?}");
    let (first, second) = (bed.to().join("a/first"), bed.to().join("b/second"));
    assert_eq!(fs::read(&second).expect("there"), b"same");
    assert_eq!(fs::read(&first).expect("there"), b"same");
    assert_ne!(fs::metadata(&first).expect("there").ino(), fs::metadata(&second).expect("there").ino());
    assert_eq!(fs::metadata(&second).expect("there").permissions().mode() & 0o7777, 0o755);
    assert_eq!(fs::read_link(bed.to().join("other")).expect("a link"), Path::new("/etc/shadow"));
}

#[test]
fn modes_keep_the_executable_bit_and_nothing_else() {
    let bed = Bed::new();
    let tar = Tar::work()
        .sized(EntryType::Directory, b"work/locked", b"", (b"", 0, 0o000))
        .sized(EntryType::Regular, b"work/locked/secret", b"", (b"s", 1, 0o000))
        .sized(EntryType::Regular, b"work/locked/root", b"", (b"r", 1, 0o6755))
        .sized(EntryType::Directory, b"work/sticky", b"", (b"", 0, 0o7777));
    bed.unpack(tar).expect("unpacks");
    let mode = |path: &str| fs::metadata(bed.to().join(path)).expect("there").permissions().mode() & 0o7777;
    assert_eq!(["locked", "locked/secret", "locked/root", "sticky"].map(mode), [0o755, 0o644, 0o755, 0o755]);
    assert_eq!(fs::metadata(bed.to().join("locked/secret")).expect("there").mtime(), 1_600_000_000);
}

#[test]
fn what_is_no_file_is_named_and_left_out() {
    let bed = Bed::new();
    let tar = Tar::work()
        .add(EntryType::Fifo, b"work/fifo", b"", b"")
        .add(EntryType::Char, b"work/null", b"", b"")
        .add(EntryType::Block, b"work/sda", b"", b"")
        .add(EntryType::Link, b"work/fifo2", b"work/fifo", b"");
    assert_eq!(
        bed.unpack(tar).expect("unpacks"),
        [
            "left out `fifo`: it is a named pipe",
            "left out `null`: it is a device",
            "left out `sda`: it is a device",
            "left out `fifo2`: it is another name of something that was left out",
        ]
    );
    assert_eq!(fs::read_dir(bed.to()).expect("listed").count(), 0);
}

#[test]
fn odd_names_come_out_as_they_are() {
    let bed = Bed::new();
    let long = [b'n'; 255];
    let deep = b"/d23456789".repeat(120);
    let names: [&[u8]; 5] = [b"\xff\xfe", b"two\nlines", b"\x1b[2J", &long, b"-rf"];
    let mut tar = Tar::work();
    for name in names {
        tar = tar.file(&[b"work/", name].concat(), name);
    }
    tar = tar.file(&[b"work", deep.as_slice(), b"/f"].concat(), b"deep");
    assert_eq!(bed.unpack(tar).expect("unpacks"), Vec::<String>::new());
    for name in names {
        assert_eq!(fs::read(bed.to().join(OsStr::from_bytes(name))).expect("there"), name);
    }
    assert_eq!(fs::read(bed.to().join(OsStr::from_bytes(&deep[1..])).join("f")).expect("there"), b"deep");
}

#[test]
fn a_tree_that_is_too_deep_gives_one_note() {
    let bed = Bed::new();
    let mut tar = Tar::work();
    let mut path = b"work".to_vec();
    for _ in 0..200 {
        path.extend_from_slice(b"/d");
        tar = tar.add(EntryType::Directory, &path, b"", b"").file(&[path.as_slice(), b"/f"].concat(), b"x");
    }
    let notes = bed.unpack(tar).expect("unpacks");
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].ends_with("the tree is too deep"), "{}", notes[0]);
}

#[test]
fn zeros_take_no_space_and_lengths_are_right() {
    let bed = Bed::new();
    let mut content = vec![0; 3 << 20];
    content.push(b'x');
    content.extend_from_slice(&vec![0; 1 << 20]);
    let zeros = vec![0; 2 << 20];
    bed.unpack(Tar::work().file(b"work/sparse", &content).file(b"work/zeros", &zeros).file(b"work/empty", b""))
        .expect("unpacks");
    assert_eq!(fs::read(bed.to().join("sparse")).expect("there"), content);
    assert_eq!(fs::read(bed.to().join("zeros")).expect("there"), zeros);
    assert_eq!(fs::read(bed.to().join("empty")).expect("there"), b"");
    assert!(fs::metadata(bed.to().join("zeros")).expect("there").blocks() < 64);
}

#[test]
fn what_is_too_much_is_left_out_with_a_note() {
    let bounds = Bounds { file: 1000, tree: 1500, archive: 100_000, entries: 6, notes: 3 };
    let bed = Bed::new();
    let tar = Tar::work()
        .file(b"work/big", &[b'b'; 1001])
        .file(b"work/first", &[b'f'; 1000])
        .add(EntryType::Link, b"work/copy", b"work/first", b"")
        .file(b"work/small", &[b's'; 500])
        .file(b"work/over", b"1")
        .file(b"work/empty", b"")
        .file(b"work/seventh", b"")
        .file(b"work/eighth", b"");
    let notes = bed.within(tar, bounds).expect("unpacks");
    assert_eq!(
        notes,
        [
            "left out `big`: it is too large (1001 bytes)",
            "left out `copy`: it is too large (1000 bytes)",
            "left out `over`: it is too large (1 bytes)",
            "and 1 more left out",
        ]
    );
    let mut names: Vec<_> =
        fs::read_dir(bed.to()).expect("listed").map(|entry| entry.expect("read").file_name()).collect();
    names.sort();
    assert_eq!(names, ["empty", "first", "small"]);

    let huge = Tar::work().sized(EntryType::Regular, b"work/huge", b"", (b"", 200_000, 0o644));
    let error = Bed::new().within(huge, bounds).expect_err("refused");
    assert_eq!((error.at.as_path(), error.source.kind()), (Path::new("huge"), io::ErrorKind::FileTooLarge));
}

#[test]
fn a_tree_whose_top_is_no_folder_is_refused() {
    for (kind, said) in
        [(EntryType::Symlink, "it is a symlink, which is not followed"), (EntryType::Regular, "it is no folder")]
    {
        let error = Bed::new().unpack(Tar::default().add(kind, b"work", b"/", b"")).expect_err("refused");
        assert_eq!(error.source.to_string(), said);
    }
    assert!(Bed::new().unpack(Tar::default()).is_err());
}
