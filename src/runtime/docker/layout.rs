//! Where things lie in a container, and whose they are.

/// Refrain's own folder; root's, so that an agent can neither remove nor replace what is in it.
pub(super) const ROOT: &str = "/refrain";
/// The workspace.
pub(super) const WORKSPACE: &str = "/work";
/// Where forks of the workspace are made.
pub(super) const FORKS: &str = "/work-forks";
/// The agent's private home.
pub(super) const HOME: &str = "/refrain/home";
/// The agent's folder for temporary files.
pub(super) const TMP: &str = "/refrain/tmp";
/// Where commands keep their output; the agent's.
pub(super) const LOGS: &str = "/refrain/log";

/// The user and group that commands run as.
pub(super) const AGENT: u32 = 1000;

/// The search path of commands where the image sets none.
pub(super) const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

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
    Folder { path: HOME, owner: AGENT, mode: 0o700 },
    Folder { path: TMP, owner: AGENT, mode: 0o700 },
    Folder { path: LOGS, owner: AGENT, mode: 0o700 },
];

/// Folders that stay writable where the image's own files are read-only: volumes of the container's own.
pub(super) const WRITABLE: &[&str] = &[ROOT, WORKSPACE, FORKS, "/tmp", "/var/tmp"];

/// Builds the archive that makes the folders and the lease file.
pub(super) fn archive() -> std::io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for folder in FOLDERS {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(tar::EntryType::Directory);
        header.set_mode(folder.mode);
        header.set_uid(folder.owner.into());
        header.set_gid(folder.owner.into());
        header.set_size(0);
        archive.append_data(&mut header, folder.path.trim_start_matches('/'), std::io::empty())?;
    }
    for path in ["tmp", "var/tmp"] {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(tar::EntryType::Directory);
        header.set_mode(0o1777);
        header.set_size(0);
        archive.append_data(&mut header, path, std::io::empty())?;
    }
    archive.into_inner()
}
