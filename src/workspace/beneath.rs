//! Opens what lies at a path below a root, and nothing that lies elsewhere.

use std::collections::VecDeque;
use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;

use super::walk::{link_target, open_folder};

/// As many links in one path as the kernel follows.
const MAX_LINKS: usize = 40;

/// What is done with a symlink on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Links {
    /// It is followed as long as it stays below the root.
    Inside,
    /// It ends the search.
    Refuse,
}

/// Why a path leads to nothing.
#[derive(Debug)]
pub(super) enum Miss {
    /// There is no such file, or a part of the path is no folder.
    Absent,
    /// A link leads out of the root.
    Outside,
    /// The operating system refused.
    Io(io::Error),
}

impl From<io::Error> for Miss {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::Absent,
            _ => Self::Io(error),
        }
    }
}

/// Where a path leads: a name in an open folder, and that name is no link; or the root itself.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) parent: OwnedFd,
    /// `None` for `parent` itself.
    pub(super) name: Option<CString>,
}

/// Finds the place of a path below `root`. The last name need not exist.
pub(super) fn find(root: &OwnedFd, path: &[u8], links: Links) -> Result<Place, Miss> {
    let mut stack = vec![root.try_clone()?];
    let mut parts: VecDeque<Vec<u8>> = split(path).collect();
    let mut followed = 0;
    while let Some(part) = parts.pop_front() {
        if part == b".." {
            stack.pop();
            if stack.is_empty() {
                return Err(Miss::Outside);
            }
            continue;
        }
        let name = CString::new(part).map_err(|_| Miss::Absent)?;
        let here = &stack[stack.len() - 1];
        let target = match link_target(here, &name) {
            Ok(target) => target,
            // The last name may be missing: the caller decides what that means.
            Err(error) if error.kind() == io::ErrorKind::NotFound && parts.is_empty() => None,
            Err(error) => return Err(error.into()),
        };
        if let Some(target) = target {
            followed += 1;
            if links == Links::Refuse || target.to_bytes().starts_with(b"/") {
                return Err(Miss::Outside);
            }
            if followed > MAX_LINKS {
                return Err(Miss::Absent);
            }
            for part in split(target.to_bytes()).rev() {
                parts.push_front(part);
            }
        } else if parts.is_empty() {
            return Ok(Place { parent: here.try_clone()?, name: Some(name) });
        } else {
            let folder = open_folder(here, &name)?;
            stack.push(folder);
        }
    }
    let parent = stack.pop().ok_or(Miss::Outside)?;
    Ok(Place { parent, name: None })
}

fn split(path: &[u8]) -> impl DoubleEndedIterator<Item = Vec<u8>> {
    path.split(|&b| b == b'/').filter(|part| !part.is_empty() && *part != b".").map(<[u8]>::to_vec)
}
