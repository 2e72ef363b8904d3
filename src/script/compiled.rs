//! Bytecode of a script's own files, compiled once for all VMs that run it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::vm::compiler;

/// Most files whose bytecode is kept; what is beyond is compiled each time.
const MAX_FILES: usize = 64;

/// Bytecode by path, with the text that it was made of.
///
/// The VM trusts bytecode. This is only ever made here, and only ever given for the very text that it was made of: a file
/// that has changed is compiled again.
#[derive(Default)]
pub(super) struct Compiled(Mutex<BTreeMap<String, Entry>>);

struct Entry {
    text: Box<[u8]>,
    bytecode: Arc<[u8]>,
}

impl Compiled {
    /// Returns the bytecode of a file; `None` where it does not compile.
    pub(super) fn of(&self, path: &str, text: &[u8]) -> Option<Arc<[u8]>> {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = files.get(path)
            && *entry.text == *text
        {
            return Some(Arc::clone(&entry.bytecode));
        }
        let bytecode: Arc<[u8]> = compiler(false).compile(text).ok()?.into();
        if files.len() < MAX_FILES || files.contains_key(path) {
            files.insert(path.to_owned(), Entry { text: text.into(), bytecode: Arc::clone(&bytecode) });
        }
        Some(bytecode)
    }
}

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiled").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_text_is_compiled_once_and_a_changed_one_again() {
        let compiled = Compiled::default();
        let first = compiled.of("runner.lua", b"return 1").expect("compiles");
        let again = compiled.of("runner.lua", b"return 1").expect("compiles");
        assert!(Arc::ptr_eq(&first, &again));
        let changed = compiled.of("runner.lua", b"return 2").expect("compiles");
        assert_ne!(first, changed);
        assert_eq!(compiled.of("runner.lua", b"return ="), None);
        assert_eq!(compiled.of("runner.lua", b"return 2"), Some(changed));
    }

    #[test]
    fn only_so_many_files_are_kept() {
        let compiled = Compiled::default();
        for number in 0..MAX_FILES + 3 {
            assert!(compiled.of(&format!("{number}.lua"), b"return 1").is_some());
        }
        assert_eq!(compiled.0.lock().expect("unpoisoned").len(), MAX_FILES);
    }
}
