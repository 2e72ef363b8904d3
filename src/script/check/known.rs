//! What exists in every script, whatever it declares.

use std::collections::{BTreeMap, BTreeSet};

use crate::script::api;
use crate::script::limits::ScriptLimits;
use crate::script::mock::{MockSetup, MockWorld};
use crate::script::run::ScriptEnd;
use crate::script::source::ScriptSource;
use crate::script::testing::Manifest;
use crate::script::vm;

/// What exists in every script: globals, and the fields of tables.
pub(super) struct Known {
    pub(super) globals: BTreeSet<String>,
    pub(super) fields: BTreeMap<String, BTreeSet<String>>,
}

impl Known {
    pub(super) fn new() -> Self {
        let mut known = Self { globals: BTreeSet::new(), fields: BTreeMap::new() };
        known.globals.extend(
            vm::GLOBALS.iter().chain(vm::KEPT).chain(vm::LIBRARIES).chain(api::GLOBALS).map(|name| (*name).to_owned()),
        );
        known.add_libraries();
        known.fields.insert("task".to_owned(), api::fields("Task").map(str::to_owned).collect());
        known
    }

    /// Asks a real VM what its libraries hold, so that the check cannot fall behind.
    fn add_libraries(&mut self) {
        const CODE: &str = "local function keys(t) local out = {} for key in pairs(t) do table.insert(out, key) end return out end
            return { string = keys(string), table = keys(table), math = keys(math), utf8 = keys(utf8), bit32 = keys(bit32),
                     buffer = keys(buffer), os = keys(os), deadline = keys(deadline), log = keys(log) }";
        let world = MockWorld::new(MockSetup::default());
        let outcome = world.play(&ScriptSource::from_text("keys.lua", CODE), world.inputs(""), ScriptLimits::default());
        if let ScriptEnd::Returned { value: serde_json::Value::Object(tables), .. } = outcome.end {
            for (table, keys) in tables {
                let keys = keys.as_array().map(Vec::as_slice).unwrap_or_default();
                self.fields.insert(table, keys.iter().filter_map(|key| key.as_str().map(str::to_owned)).collect());
            }
        }
    }

    pub(super) fn add_params(&mut self, manifest: &Manifest) {
        if let Some(names) = manifest.names() {
            self.fields.insert("params".to_owned(), names.map(str::to_owned).collect());
        }
    }
}
