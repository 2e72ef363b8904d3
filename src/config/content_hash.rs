//! What a folder or a file holds, as one digest that does not depend on where it lies.

use std::io;
use std::path::Path;

/// The most files that a folder may hold to be hashed.
const MAX_FILES: usize = 100_000;

/// Hashes named contents: sorted by name, each length-prefixed, so no two different sets meet.
pub(crate) fn of_files(mut files: Vec<(String, &[u8])>) -> String {
    files.sort();
    let mut hasher = blake3::Hasher::new();
    for (name, bytes) in files {
        part(&mut hasher, name.as_bytes());
        part(&mut hasher, bytes);
    }
    hasher.finalize().to_hex().to_string()
}

/// Hashes a file, or a folder with names, contents, executable bits and the targets of links. `.git` is left out.
///
/// # Errors
///
/// Anything that cannot be read, or a folder with more than 100,000 files.
pub(crate) fn of_path(path: &Path) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    if std::fs::metadata(path)?.is_file() {
        hasher.update_reader(std::fs::File::open(path)?)?;
        return Ok(hasher.finalize().to_hex().to_string());
    }
    let mut files = Vec::new();
    list(path, "", &mut files)?;
    files.sort();
    for name in files {
        let file = path.join(&name);
        let metadata = std::fs::symlink_metadata(&file)?;
        part(&mut hasher, name.as_bytes());
        if metadata.is_symlink() {
            part(&mut hasher, b"link");
            part(&mut hasher, std::fs::read_link(&file)?.as_os_str().as_encoded_bytes());
        } else {
            part(&mut hasher, if is_executable(&metadata) { b"program" } else { b"file" });
            hasher.update(&metadata.len().to_le_bytes());
            hasher.update_reader(std::fs::File::open(&file)?)?;
        }
    }
    Ok(hasher.finalize().to_hex().to_string())
}

/// Adds a piece with its length before it.
pub(crate) fn part(hasher: &mut blake3::Hasher, bytes: &[u8]) {
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}

/// Lists files and links below a folder by relative name; follows no link, leaves out sockets and devices.
pub(crate) fn list(root: &Path, below: &str, into: &mut Vec<String>) -> io::Result<()> {
    for entry in std::fs::read_dir(root.join(below))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == ".git" {
            continue;
        }
        let relative = if below.is_empty() { name } else { format!("{below}/{name}") };
        let kind = entry.file_type()?;
        if kind.is_dir() {
            list(root, &relative, into)?;
        } else if kind.is_file() || kind.is_symlink() {
            into.push(relative);
        }
        if into.len() > MAX_FILES {
            return Err(io::Error::other(format!("more than {MAX_FILES} files")));
        }
    }
    Ok(())
}

#[cfg(unix)]
fn is_executable(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    metadata.permissions().mode() & 0o111 != 0
}

#[cfg(not(unix))]
fn is_executable(_metadata: &std::fs::Metadata) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().expect("below")).expect("folders");
            fs::write(path, text).expect("a file");
        }
        dir
    }

    #[test]
    fn depends_on_content_and_not_on_place() {
        let one = folder(&[("a", "1"), ("b/c", "2")]);
        let same = folder(&[("b/c", "2"), ("a", "1"), (".git/HEAD", "x")]);
        let moved = folder(&[("a", "1"), ("b/d", "2")]);
        let split = folder(&[("a", "12"), ("b/c", "")]);
        let hash = |dir: &tempfile::TempDir| of_path(dir.path()).expect("hashes");
        assert_eq!(hash(&one), hash(&same));
        assert_ne!(hash(&one), hash(&moved));
        assert_ne!(hash(&one), hash(&split));
    }

    #[cfg(unix)]
    #[test]
    fn follows_no_link_and_sees_the_executable_bit() {
        use std::os::unix::fs::PermissionsExt;
        let dir = folder(&[("a", "1")]);
        let before = of_path(dir.path()).expect("hashes");
        std::os::unix::fs::symlink("/", dir.path().join("root")).expect("a link");
        let linked = of_path(dir.path()).expect("ends, so the link was not followed");
        assert_ne!(before, linked);
        fs::remove_file(dir.path().join("root")).expect("removed");
        fs::set_permissions(dir.path().join("a"), fs::Permissions::from_mode(0o755)).expect("mode");
        assert_ne!(before, of_path(dir.path()).expect("hashes"));
    }
}
