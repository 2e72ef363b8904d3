//! The standard modules: embedded sources, compiled once for all VMs.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::vm::{compiler, own_compiler};

macro_rules! modules {
    ($($name:literal),* $(,)?) => {
        const SOURCES: &[(&str, &str)] = &[$(($name, include_str!(concat!("../../lua-stdlib/", $name, ".lua")))),*];
    };
}

modules![
    "budget",
    "checks",
    "clock",
    "exec",
    "fork",
    "json",
    "loop",
    "parallel",
    "phases",
    "prompt",
    "stop",
    "text",
    "vote",
    "workspace",
];

/// Bytecode by module. Only ever made here, from our own text: the VM trusts bytecode, so no other is loaded.
static BYTECODE: LazyLock<BTreeMap<&'static str, Vec<u8>>> = LazyLock::new(|| {
    SOURCES.iter().filter_map(|(name, text)| Some((*name, compiler(false).compile(text).ok()?))).collect()
});

static PRELUDE: LazyLock<Vec<u8>> =
    LazyLock::new(|| own_compiler().compile(include_str!("prelude.lua")).unwrap_or_default());

static GLOBALS: LazyLock<Vec<u8>> =
    LazyLock::new(|| own_compiler().compile(include_str!("globals.lua")).unwrap_or_default());

/// Returns the names of the standard modules, without `@std/`.
pub(crate) fn names() -> impl Iterator<Item = &'static str> + Clone {
    SOURCES.iter().map(|(name, _)| *name)
}

/// Returns the text of a standard module.
pub(crate) fn source(name: &str) -> Option<&'static str> {
    SOURCES.iter().find(|(module, _)| *module == name).map(|(_, text)| *text)
}

/// Returns the bytecode of a standard module.
pub(crate) fn bytecode(name: &str) -> Option<&'static [u8]> {
    BYTECODE.get(name).map(Vec::as_slice)
}

/// Returns the bytecode of the host's own Lua part.
pub(crate) fn prelude() -> &'static [u8] {
    &PRELUDE
}

/// Returns the bytecode of the host's global functions.
pub(crate) fn globals() -> &'static [u8] {
    &GLOBALS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_module_compiles() {
        assert!(!prelude().is_empty() && !globals().is_empty());
        for name in names() {
            assert!(bytecode(name).is_some(), "@std/{name} does not compile");
        }
    }
}
