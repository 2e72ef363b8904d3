//! The gateway's Unix socket on its way into containers.
//!
//! The gateway listens in a folder that only its user may enter. Each environment gets a folder of its own with a hard
//! link to the socket, and that folder is mounted: a container sees one socket and nothing else, and a later host that
//! takes it over puts its own socket in the place of the old one.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::runtime::owner::{HostProcess, Life};

/// The socket, in every folder.
pub(super) const SOCKET: &str = "sock";
/// What the folders of gateways are called, before what tells one from another.
const PREFIX: &str = "gateway-";
/// In the folder of a gateway: the process whose it is.
const HOST: &str = "host.json";
/// In the scratch folder of an environment: the folder that is mounted.
const MOUNTED: &str = "gateway";
/// The longest path that a socket can be bound to everywhere.
const LONGEST: usize = 100;

/// The folder that a gateway of this process listens in. Removed when it is dropped.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    handle: File,
}

impl Folder {
    /// Makes one below `root`.
    pub(super) fn make(root: &Path) -> io::Result<Self> {
        fs::create_dir_all(root)?;
        let unique = uuid::Uuid::new_v4().simple().to_string();
        let path = std::path::absolute(root)?.join(format!("{PREFIX}{}", &unique[..8]));
        DirBuilder::new().mode(0o700).create(&path)?;
        fs::write(path.join(HOST), serde_json::to_vec(&HostProcess::current())?)?;
        let handle = File::open(&path)?;
        Ok(Self { path, handle })
    }

    /// Returns where the gateway is to bind its socket.
    pub(super) fn socket(&self) -> PathBuf {
        let path = self.path.join(SOCKET);
        if path.as_os_str().len() <= LONGEST {
            return path;
        }
        // The kernel takes no long names of sockets, but leads a short one through an open folder.
        PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", self.handle.as_raw_fd()))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What stays is swept once this process is gone.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes the folders of gateways below `root` whose process is gone. Returns a line for each.
pub(super) fn sweep(root: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(root) else { return Vec::new() };
    let ours = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
    ours.filter_map(|entry| {
        let path = entry.path();
        let host: HostProcess = serde_json::from_slice(&fs::read(path.join(HOST)).ok()?).ok()?;
        if !matches!(host.life(), Life::Dead | Life::BeforeBoot) {
            return None;
        }
        Some(match fs::remove_dir_all(&path) {
            Ok(()) => format!("removed the gateway's folder `{}` of a host that is gone", path.display()),
            Err(error) => format!("could not remove `{}`: {error}", path.display()),
        })
    })
    .collect()
}

/// Returns the folder that is mounted into the container of the environment with this scratch folder.
pub(super) fn mounted(scratch: &Path) -> PathBuf {
    scratch.join(MOUNTED)
}

/// Puts a gateway's socket into a folder that is mounted, in the place of any that is there.
pub(super) fn link(socket: &Path, folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // Others on this machine stop at the environment's own folder; in the container everybody may use the socket, and it
    // asks for a capability.
    if let Some(scratch) = folder.parent() {
        fs::set_permissions(scratch, Permissions::from_mode(0o700))?;
    }
    fs::set_permissions(folder, Permissions::from_mode(0o755))?;
    fs::set_permissions(socket, Permissions::from_mode(0o666))?;
    let new = folder.join("new");
    let _ = fs::remove_file(&new);
    fs::hard_link(socket, &new)?;
    fs::rename(&new, folder.join(SOCKET))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixListener, UnixStream};

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("there").permissions().mode() & 0o777
    }

    #[test]
    fn a_socket_is_linked_and_a_later_one_takes_its_place() {
        let dir = tempfile::tempdir().expect("a folder");
        // Longer than any name of a socket may be.
        let root = dir.path().join("long".repeat(30)).join("scratch");
        let scratch = root.join("attempt/agent");
        let first = Folder::make(&root).expect("made");
        let listener = UnixListener::bind(first.socket()).expect("bound");
        let folder = mounted(&scratch);
        link(&first.socket(), &folder).expect("linked");
        assert_eq!((mode(&first.path), mode(&scratch), mode(&folder)), (0o700, 0o700, 0o755));
        assert_eq!(mode(&folder.join(SOCKET)), 0o666);
        let handle = File::open(&folder).expect("opened");
        let inside = format!("/proc/self/fd/{}/{SOCKET}", handle.as_raw_fd());
        UnixStream::connect(&inside).expect("connected");
        listener.accept().expect("came");

        drop(listener);
        let second = Folder::make(&root).expect("made");
        let listener = UnixListener::bind(second.socket()).expect("bound");
        assert!(UnixStream::connect(&inside).is_err(), "nobody listens on the first any more");
        link(&second.socket(), &folder).expect("linked");
        UnixStream::connect(&inside).expect("connected");
        listener.accept().expect("came");

        let path = first.path.clone();
        drop(first);
        assert!(!path.exists());
    }

    #[test]
    fn folders_of_the_dead_are_swept() {
        let root = tempfile::tempdir().expect("a folder");
        let (alive, dead) = (Folder::make(root.path()).expect("made"), Folder::make(root.path()).expect("made"));
        let other = fs::read_to_string(dead.path.join(HOST)).expect("read").replace("\"started\":", "\"started\":9");
        fs::write(dead.path.join(HOST), other).expect("written");
        let lines = sweep(root.path());
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains(&dead.path.display().to_string()), "{lines:?}");
        assert!(alive.path.exists() && !dead.path.exists());
    }
}
