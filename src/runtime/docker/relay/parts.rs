//! What a program of this machine needs to run where nothing of this machine is: itself, the libraries that it is linked
//! against, and the loader that brings them together.
//!
//! With its own loader and libraries it runs in every image of the same architecture, whatever C library is there, or
//! none.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The name of the loader among the parts.
pub(in crate::runtime::docker) const LOADER: &str = "loader";
/// The name of the program among the parts.
pub(in crate::runtime::docker) const PROGRAM: &str = "program";

/// A file, and the name that it must bear.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Its name where it is needed.
    pub name: String,
    /// Where it is on this machine.
    pub path: PathBuf,
}

/// Returns the parts of the program that asks: what is mapped into its memory.
///
/// # Errors
///
/// The kernel does not tell, as where there is no `/proc`.
pub fn own() -> io::Result<Vec<Part>> {
    let program = std::env::current_exe()?;
    let mut parts = vec![Part { name: PROGRAM.to_owned(), path: program.clone() }];
    for path in mapped(&fs::read_to_string("/proc/self/maps")?) {
        if path == program {
            continue;
        }
        let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if file.starts_with("ld-") || file.starts_with("ld.so") {
            parts.push(Part { name: LOADER.to_owned(), path: path.clone() });
        }
        if file.contains(".so") {
            parts.extend(names(&path, file)?.into_iter().map(|name| Part { name, path: path.clone() }));
        }
    }
    Ok(parts)
}

/// Returns the files that a table of mappings names and that hold code, each once.
fn mapped(table: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for line in table.lines() {
        // Addresses, rights, offset, device, inode, and a path that may hold spaces.
        let mut rest = line;
        let mut rights = "";
        for field in 0..5 {
            let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
            if field == 1 {
                rights = word;
            }
            rest = after.trim_start();
        }
        if rights.contains('x') && rest.starts_with('/') && !found.iter().any(|known| known == Path::new(rest)) {
            found.push(rest.into());
        }
    }
    found
}

/// Returns the names under which a library may be asked for: its own, and those of the links beside it that lead to it.
fn names(path: &Path, own: String) -> io::Result<Vec<String>> {
    let mut names = vec![own];
    let Some(folder) = path.parent() else { return Ok(names) };
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        if is_link && name.contains(".so") && entry.path().canonicalize().is_ok_and(|target| target == path) {
            names.push(name);
        }
    }
    Ok(names)
}

/// Writes parts down, one a line.
#[must_use]
pub fn to_text(parts: &[Part]) -> String {
    let lines: Vec<String> = parts.iter().map(|part| format!("{}\t{}\n", part.name, part.path.display())).collect();
    lines.concat()
}

/// Reads what [`to_text`] has written. `None` where it is something else.
pub(in crate::runtime::docker) fn from_text(text: &str) -> Option<Vec<Part>> {
    let part = |line: &str| {
        let (name, path) = line.split_once('\t')?;
        let sound = !name.is_empty() && !name.contains('/') && path.starts_with('/');
        sound.then(|| Part { name: name.to_owned(), path: path.into() })
    };
    let parts: Vec<Part> = text.lines().map(part).collect::<Option<_>>()?;
    parts.iter().any(|part| part.name == PROGRAM).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_found_in_a_table_of_mappings() {
        let table = "\
55d0-55d1 r--p 00000000 fe:00 131                        /usr/bin/a program
55d1-55d2 r-xp 00001000 fe:00 131                        /usr/bin/a program
7f00-7f01 r-xp 00000000 fe:00 132                        /usr/lib/libc.so.6
7f01-7f02 r-xp 00000000 00:00 0                          [vdso]
7f02-7f03 rwxp 00000000 00:00 0 
7f03-7f04 r--p 00000000 fe:00 133                        /usr/lib/locale/locale-archive
7f04-7f05 r-xp 00002000 fe:00 132                        /usr/lib/libc.so.6
";
        assert_eq!(mapped(table), [Path::new("/usr/bin/a program"), Path::new("/usr/lib/libc.so.6")]);
    }

    #[test]
    fn a_library_goes_by_the_names_of_its_links() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = dir.path().canonicalize().expect("a path");
        let library = folder.join("libc-2.31.so");
        fs::write(&library, "").expect("written");
        std::os::unix::fs::symlink("libc-2.31.so", folder.join("libc.so.6")).expect("linked");
        std::os::unix::fs::symlink("/usr/lib/other.so", folder.join("other.so")).expect("linked");
        fs::write(folder.join("libm.so.6"), "").expect("written");
        assert_eq!(names(&library, "libc-2.31.so".to_owned()).expect("read"), ["libc-2.31.so", "libc.so.6"]);
    }

    #[test]
    fn a_program_names_its_parts_and_they_come_back_from_text() {
        let parts = own().expect("told");
        assert!(parts.iter().all(|part| part.path.is_file()), "{parts:?}");
        assert_eq!(parts.iter().filter(|part| part.name == PROGRAM).count(), 1);
        assert_eq!(from_text(&to_text(&parts)), Some(parts));
        assert_eq!(from_text("usage: something else\n"), None);
        assert_eq!(from_text("../libc.so.6\t/usr/lib/libc.so.6\n"), None);
        assert_eq!(from_text(""), None);
    }
}
