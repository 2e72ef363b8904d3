//! The part of `orchestrator.toml` that a test needs: the runner and the defaults of the parameters.
//!
//! The full check of manifests is the configuration's; here a test gets the values that a run would get.

use crate::domain::{ParamValue, Params};
use crate::script::bind::suggestion;
use crate::script::source::ScriptSource;

/// Runner and defaults.
#[derive(Debug, Default)]
pub(crate) struct Manifest {
    pub(super) runner: Option<String>,
    /// `None` stands for a parameter that must be given.
    params: Option<Vec<(String, Option<ParamValue>)>>,
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
        let mut params = Vec::new();
        if let Some(declared) = table.get("params").and_then(toml::Value::as_table) {
            for (name, value) in declared {
                let default = match value {
                    toml::Value::Table(spec) => spec.get("default"),
                    other => Some(other),
                };
                let default = default.map(|value| {
                    convert(value).ok_or_else(|| format!("params.{name}: a default of a kind that no parameter has"))
                });
                params.push((name.clone(), default.transpose()?));
            }
        }
        Ok(Self { runner, params: Some(params) })
    }

    /// Returns the runner, where the manifest names one.
    pub(crate) fn runner(&self) -> Option<&str> {
        self.runner.as_deref()
    }

    /// Returns the names of the declared parameters; `None` where there is no manifest.
    pub(crate) fn names(&self) -> Option<impl Iterator<Item = &str>> {
        self.params.as_ref().map(|params| params.iter().map(|(name, _)| name.as_str()))
    }

    /// Lays the given values over the defaults.
    pub(super) fn resolve(&self, given: Params) -> Result<Params, String> {
        let Some(declared) = &self.params else { return Ok(given) };
        for name in given.keys() {
            if !declared.iter().any(|(known, _)| known == name) {
                let known = declared.iter().map(|(known, _)| known.as_str());
                return Err(format!("params: the orchestrator declares no `{name}`{}", suggestion(name, known)));
            }
        }
        let mut params = given;
        for (name, default) in declared {
            match (params.contains_key(name), default) {
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

fn convert(value: &toml::Value) -> Option<ParamValue> {
    Some(match value {
        toml::Value::Boolean(flag) => ParamValue::Bool(*flag),
        toml::Value::Integer(number) => ParamValue::Int(*number),
        toml::Value::Float(number) => ParamValue::Float(*number),
        toml::Value::String(text) => ParamValue::Text(text.clone()),
        toml::Value::Array(items) => ParamValue::List(items.iter().map(convert).collect::<Option<_>>()?),
        toml::Value::Datetime(_) | toml::Value::Table(_) => return None,
    })
}
