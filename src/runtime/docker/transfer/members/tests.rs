use super::*;

/// A member with its content, as its raw blocks.
fn member(kind: EntryType, name: &[u8], target: &[u8], content: &[u8]) -> Vec<u8> {
    let mut header = Header::new_ustar();
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    header.as_old_mut().linkname[..target.len()].copy_from_slice(target);
    header.set_entry_type(kind);
    header.set_mode(0o4755);
    header.set_size(content.len() as u64);
    header.set_mtime(1_700_000_000);
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().div_ceil(BLOCK) * BLOCK, 0);
    bytes
}

fn record(key: &[u8], value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let length = (1..=20).map(|digits| rest + digits).find(|length| length.to_string().len() + rest == *length);
    let mut record = length.expect("some length fits").to_string().into_bytes();
    record.push(b' ');
    record.extend_from_slice(key);
    record.push(b'=');
    record.extend_from_slice(value);
    record.push(b'\n');
    record
}

fn archive(members: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = members.concat();
    bytes.extend_from_slice(&[0; 2 * BLOCK]);
    bytes
}

fn all(bytes: &[u8]) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut members = Members::new(bytes);
    let mut found = Vec::new();
    while let Some(member) = members.next()? {
        let mut content = Vec::new();
        members.read_to_end(&mut content)?;
        found.push((member.path, content));
    }
    Ok(found)
}

#[test]
fn content_is_read_or_passed_over() {
    let bytes = archive(&[
        member(EntryType::Directory, b"work/", b"", b""),
        member(EntryType::Regular, b"work/a", b"", &[b'a'; 700]),
        member(EntryType::Regular, b"work/b", b"", &[b'b'; 512]),
        member(EntryType::Symlink, b"work/l", b"../x/", b""),
    ]);
    let mut members = Members::new(&bytes[..]);
    let mut next = || members.next().expect("readable");
    assert_eq!(next().map(|member| (member.kind, member.size)), Some((EntryType::Directory, 0)));
    assert_eq!(next().map(|member| (member.path, member.size)), Some((b"work/a".to_vec(), 700)));
    assert_eq!(next().map(|member| (member.executable, member.modified)), Some((true, 1_700_000_000)));
    assert_eq!(next().map(|member| member.target), Some(b"../x/".to_vec()));
    assert_eq!(next(), None);
    assert_eq!(all(&bytes).expect("readable")[1].1, vec![b'a'; 700]);
}

#[test]
fn a_name_with_line_ends_adds_no_records_of_its_own() {
    let name = [b"work/x\n10 size=0\n15 path=/etc/evil\n".as_slice(), &[b'y'; 200]].concat();
    let bytes = archive(&[
        member(EntryType::XHeader, b"PaxHeaders.0/x", b"", &record(b"path", &name)),
        member(EntryType::Regular, b"work/x", b"", b"content"),
        member(EntryType::Regular, b"work/last", b"", b"last"),
    ]);
    let found = all(&bytes).expect("readable");
    assert_eq!(found, [(name, b"content".to_vec()), (b"work/last".to_vec(), b"last".to_vec())]);
}

#[test]
fn long_names_come_in_both_forms() {
    let long: Vec<u8> = [b"work".as_slice(), &b"/\xff23456789".repeat(400)].concat();
    let mut gnu = long.clone();
    gnu.push(0);
    let bytes = archive(&[
        member(EntryType::GNULongName, b"././@LongLink", b"", &gnu),
        member(EntryType::Regular, b"cut", b"", b"gnu"),
        member(EntryType::XHeader, b"x", b"", &[record(b"mtime", b"1.5"), record(b"path", &long)].concat()),
        member(EntryType::Regular, b"cut", b"", b"pax"),
        member(EntryType::XGlobalHeader, b"g", b"", &record(b"path", b"of all")),
        member(EntryType::Regular, b"own", b"", b""),
    ]);
    let found = all(&bytes).expect("readable");
    assert_eq!(found[0], (long.clone(), b"gnu".to_vec()));
    assert_eq!(found[1], (long, b"pax".to_vec()));
    assert_eq!(found[2].0, b"own");
}

#[test]
fn long_targets_come_in_both_forms() {
    let long = b"../".repeat(500);
    let bytes = archive(&[
        member(EntryType::GNULongLink, b"l", b"", &[long.as_slice(), b"\0"].concat()),
        member(EntryType::Symlink, b"work/a", b"cut", b""),
        member(EntryType::XHeader, b"x", b"", &record(b"linkpath", &long)),
        member(EntryType::Symlink, b"work/b", b"cut", b""),
    ]);
    let mut members = Members::new(&bytes[..]);
    for _ in 0..2 {
        assert_eq!(members.next().expect("readable").map(|member| member.target), Some(long.clone()));
    }
}

#[test]
fn an_archive_that_ends_early_is_an_error_wherever_it_ends() {
    let whole = archive(&[
        member(EntryType::Directory, b"work/", b"", b""),
        member(EntryType::Regular, b"work/a", b"", &[b'a'; 700]),
    ]);
    assert!(all(&whole).is_ok());
    for end in [0, 100, 512, 800, 1024 + 700, 1024 + 1024, 1024 + 1024 + 511] {
        let error = all(&whole[..end]).expect_err("refused");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "cut at {end}: {error}");
    }
}

#[test]
fn what_is_malformed_is_an_error_and_never_a_panic() {
    let named = |records: &[u8]| {
        archive(&[member(EntryType::XHeader, b"x", b"", records), member(EntryType::Regular, b"a", b"", b"")])
    };
    for records in [
        b"abc".as_slice(),
        b"5 a=b\n",
        b"99 path=x\n",
        b"0 path=x\n",
        b"2 path=x\n",
        b"99999999999999999999 path=x\n",
        b"-5 path=x\n",
        b"10 size=-1\n",
        b"9 novalue\n",
        b"22 GNU.sparse.major=1\n",
    ] {
        assert!(all(&named(records)).is_err(), "{}", String::from_utf8_lossy(records));
    }
    let mut wrong = archive(&[member(EntryType::Regular, b"a", b"", b"")]);
    wrong[0] = b'b';
    assert!(all(&wrong).expect_err("refused").to_string().contains("wrong sum"));
    let sparse = archive(&[member(EntryType::GNUSparse, b"a", b"", b"")]);
    assert!(all(&sparse).expect_err("refused").to_string().contains("unknown kind 'S'"));
    let mut huge = Header::new_ustar();
    huge.set_entry_type(EntryType::GNULongName);
    huge.set_size(1 << 40);
    huge.set_cksum();
    assert!(all(huge.as_bytes()).expect_err("refused").to_string().contains("too long"));
}
