//! Where things lie in a container, and whose they are.

use std::io;
use std::path::Path;

/// Refrain's own folder; root's, so that an agent can neither remove nor replace what is in it.
pub(super) const ROOT: &str = "/refrain";
/// The workspace.
pub(super) const WORKSPACE: &str = "/work";
/// Where forks of the workspace are made.
pub(super) const FORKS: &str = "/work-forks";
/// Where copies of workspaces are kept, to set one back that a session has left half changed.
pub(super) const CHECKPOINTS: &str = "/work-checkpoints";
/// The agent's private home.
pub(super) const HOME: &str = "/refrain/home";
/// The agent's folder for temporary files.
pub(super) const TMP: &str = "/refrain/tmp";
/// Where commands keep their output; the agent's.
pub(super) const LOGS: &str = "/refrain/log";
/// The file that the host rewrites as its sign of life, below [`ROOT`].
const LEASE: &str = "lease";

/// Changes with what [`archive`] holds, so that no image with an older layer is used.
pub(super) const VERSION: &str = "3";

/// The user and group that commands run as.
pub(super) const AGENT: u32 = 1000;

/// The search path of commands where the image sets none.
pub(super) const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Folders that stay writable where the image's own files are read-only: volumes of the container's own.
pub(super) const WRITABLE: &[&str] = &[ROOT, WORKSPACE, FORKS, CHECKPOINTS, "/tmp", "/var/tmp"];

/// A folder that every container has.
struct Folder {
    path: &'static str,
    owner: u32,
    mode: u32,
}

const FOLDERS: &[Folder] = &[
    Folder { path: ROOT, owner: 0, mode: 0o755 },
    Folder { path: WORKSPACE, owner: AGENT, mode: 0o755 },
    Folder { path: FORKS, owner: AGENT, mode: 0o755 },
    Folder { path: CHECKPOINTS, owner: AGENT, mode: 0o755 },
    Folder { path: HOME, owner: AGENT, mode: 0o700 },
    Folder { path: TMP, owner: AGENT, mode: 0o700 },
    Folder { path: LOGS, owner: AGENT, mode: 0o700 },
    Folder { path: "/tmp", owner: 0, mode: 0o1777 },
    Folder { path: "/var/tmp", owner: 0, mode: 0o1777 },
];

/// Returns the path of the lease file.
pub(super) fn lease_file() -> String {
    format!("{ROOT}/{LEASE}")
}

/// Builds the layer that every container's image has: the folders, the lease, and the table of users with the agent in
/// it where the image's own (`users`) lacks the agent's number.
pub(super) fn archive(users: Option<&[u8]>) -> io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for folder in FOLDERS {
        let mut header = header(tar::EntryType::Directory, folder.owner, folder.mode, 0);
        archive.append_data(&mut header, folder.path.trim_start_matches('/'), io::empty())?;
    }
    file(&mut archive, lease_file().trim_start_matches('/'), b"0\n")?;
    if let Some(users) = users.and_then(with_agent) {
        file(&mut archive, "etc/passwd", &users)?;
    }
    archive.into_inner()
}

/// Builds the archive that removes what an image has where the workspace goes: the daemon replaces a folder by a file of
/// its name with all that is in it, and [`archive`] puts an empty one in its place.
pub(super) fn emptied() -> io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    file(&mut archive, WORKSPACE.trim_start_matches('/'), b"")?;
    archive.into_inner()
}

/// Builds the archive that says who has the container, to be unpacked at [`ROOT`]; `tree.sh` reads it.
pub(super) fn owner(token: &str) -> io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    file(&mut archive, "owner", format!("{token}\n").as_bytes())?;
    archive.into_inner()
}

/// Builds the archive that empties the folder for temporary files, to be unpacked at [`ROOT`]: as [`emptied`], with an
/// empty folder behind the file.
pub(super) fn empty_tmp() -> io::Result<Vec<u8>> {
    let name = TMP.trim_start_matches(ROOT).trim_start_matches('/');
    let mut archive = tar::Builder::new(Vec::new());
    file(&mut archive, name, b"")?;
    archive.append_data(&mut header(tar::EntryType::Directory, AGENT, 0o700, 0), name, io::empty())?;
    archive.into_inner()
}

/// Builds the archive that puts a link to the workspace in the place of a folder, and tells where it is to be unpacked.
/// `None` where the workspace is there anyway.
pub(super) fn stand_in(path: &Path) -> io::Result<Option<(String, Vec<u8>)>> {
    let (Some(parent), Some(name)) = (path.parent().and_then(Path::to_str), path.file_name()) else { return Ok(None) };
    if path == Path::new(WORKSPACE) {
        return Ok(None);
    }
    let mut archive = tar::Builder::new(Vec::new());
    archive.append_link(&mut header(tar::EntryType::Symlink, 0, 0o777, 0), name, WORKSPACE)?;
    Ok(Some((parent.to_owned(), archive.into_inner()?)))
}

/// Builds the archive that renews the lease, to be unpacked at [`ROOT`]. Each `sign` differs from the one before.
pub(super) fn lease(sign: u64) -> io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    file(&mut archive, LEASE, format!("{sign}\n").as_bytes())?;
    archive.into_inner()
}

fn file(archive: &mut tar::Builder<Vec<u8>>, path: &str, content: &[u8]) -> io::Result<()> {
    archive.append_data(&mut header(tar::EntryType::Regular, 0, 0o644, content.len() as u64), path, content)
}

fn header(kind: tar::EntryType, owner: u32, mode: u32, size: u64) -> tar::Header {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(owner.into());
    header.set_gid(owner.into());
    header.set_size(size);
    header
}

/// Adds the agent to a table of users; `None` where somebody has its number already. Programs such as ssh and git ask
/// the table who they are, and fail where nobody is.
fn with_agent(users: &[u8]) -> Option<Vec<u8>> {
    let number = AGENT.to_string();
    let has = |line: &[u8]| line.split(|byte| *byte == b':').nth(2) == Some(number.as_bytes());
    if users.split(|byte| *byte == b'\n').any(has) {
        return None;
    }
    let mut all = users.to_vec();
    if !all.is_empty() && !all.ends_with(b"\n") {
        all.push(b'\n');
    }
    all.extend_from_slice(format!("agent:x:{AGENT}:{AGENT}:agent:{HOME}:/bin/sh\n").as_bytes());
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_is_added_once_and_only_where_its_number_is_free() {
        let added = with_agent(b"root:x:0:0:root:/root:/bin/sh").expect("added");
        let expected = "root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000:agent:/refrain/home:/bin/sh\n";
        assert_eq!(String::from_utf8_lossy(&added), expected);
        assert_eq!(with_agent(&added), None);
        assert_eq!(with_agent(b"node:x:1000:1000::/home/node:/bin/bash\n"), None);
        // A number that only begins alike is another one.
        assert!(with_agent(b"x:x:10000:1000::/:/bin/sh\n").is_some());
        assert!(with_agent(b"").is_some_and(|all| all.starts_with(b"agent:")));
    }

    #[test]
    fn the_archive_holds_the_folders_with_their_owners() {
        let bytes = archive(None).expect("built");
        let mut found = Vec::new();
        for entry in tar::Archive::new(&bytes[..]).entries().expect("an archive") {
            let entry = entry.expect("an entry");
            let header = entry.header();
            let path = entry.path().expect("a path").display().to_string();
            found.push((path, header.uid().expect("a user"), header.mode().expect("a mode")));
        }
        assert_eq!(found.len(), FOLDERS.len() + 1);
        assert!(found.contains(&("refrain".to_owned(), 0, 0o755)));
        assert!(found.contains(&("work".to_owned(), 1000, 0o755)));
        assert!(found.contains(&("refrain/lease".to_owned(), 0, 0o644)));
    }
}
