//! The part of `orchestrator.toml` that a test needs: the runner and the parameters.
//!
//! The full check of manifests is the configuration's; here a test gets the values that a run would get, and what a run
//! would refuse is refused.

use std::collections::BTreeMap;

use crate::config::orchestrator_manifest::{ParamSpec, declared_params};
use crate::domain::Params;
use crate::script::bind::suggestion;
use crate::script::source::ScriptSource;

/// Runner and parameters.
#[derive(Debug, Default)]
pub(crate) struct Manifest {
    pub(super) runner: Option<String>,
    /// `None` where there is no manifest: then any parameters will do.
    params: Option<BTreeMap<String, ParamSpec>>,
}

impl Manifest {
    /// Reads the manifest beside a runner; an orchestrator without one takes any parameters.
    pub(crate) fn read(source: &ScriptSource) -> Result<Self, String> {
        let Some(bytes) = source.read("orchestrator.toml").map_err(|error| error.to_string())? else {
            return Ok(Self::default());
        };
        let text = String::from_utf8(bytes).map_err(|_| "orchestrator.toml is no UTF-8".to_owned())?;
        let table: toml::Table = text.parse().map_err(|error| format!("orchestrator.toml: {error}"))?;
        let runner = table.get("runner").and_then(toml::Value::as_str).map(str::to_owned);
        let params = declared_params(&text).map_err(|error| error.to_string())?;
        Ok(Self { runner, params: Some(params) })
    }

    /// Returns the runner, where the manifest names one.
    pub(crate) fn runner(&self) -> Option<&str> {
        self.runner.as_deref()
    }

    /// Returns the names of the declared parameters; `None` where there is no manifest.
    pub(crate) fn names(&self) -> Option<impl Iterator<Item = &str>> {
        self.params.as_ref().map(|params| params.keys().map(String::as_str))
    }

    /// Checks the given values and lays them over the defaults.
    pub(super) fn resolve(&self, given: Params) -> Result<Params, String> {
        let Some(declared) = &self.params else { return Ok(given) };
        let mut params = Params::new();
        for (name, value) in given {
            let Some(spec) = declared.get(&name) else {
                let known = declared.keys().map(String::as_str);
                return Err(format!("params: the orchestrator declares no `{name}`{}", suggestion(&name, known)));
            };
            let value = spec.check(&name, value).map_err(|error| format!("params: {error}"))?;
            params.insert(name, value);
        }
        for (name, spec) in declared {
            match (params.contains_key(name), &spec.default) {
                (true, _) => {}
                (false, Some(default)) => {
                    params.insert(name.clone(), default.clone());
                }
                (false, None) => return Err(format!("params: `{name}` has no default and must be given")),
            }
        }
        Ok(params)
    }
}
