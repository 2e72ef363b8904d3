//! Templates of manifests: text with placeholders in braces.
//!
//! `{prompt}` and its like are replaced once, and what comes in is never looked at again, so a prompt may hold braces,
//! quotes, newlines and anything else. `{{` and `}}` stand for braces. `{name?}` leaves the whole argument, variable or
//! file out where `name` has no value. Unknown names are errors when the manifest is loaded, not when a session starts.

use std::path::Path;

use super::SessionRequest;
use crate::config::harness_metering::BasePath;

/// Names that stand alone, with what they mean. The reference page is made from this table too.
pub const PLACEHOLDERS: &[(&str, &str)] = &[
    ("prompt", "the prompt, as it is"),
    ("prompt_file", "path of a file that holds the prompt"),
    ("model", "the provider's model id"),
    ("provider", "the provider"),
    ("session", "number of the session in its attempt, from 1"),
    ("task", "id of the task"),
    ("phase", "name of the phase, where there is one"),
    ("label", "label that the script gave the session, where it gave one"),
    ("workspace", "path of the workspace"),
    ("home", "path of the agent's private home"),
    ("session_dir", "path of a folder for this session's files"),
    ("resume", "the harness's own id of the session to resume"),
    ("base_url", "where the model's provider is: the gateway, else the model's own `base_url`"),
    ("api_key", "what stands for the model's key: the gateway's token, else the key"),
    ("max_cost", "the most dollars the session may cost"),
    ("refrain", "path of the refrain program"),
    ("dir", "folder of a harness that is not built in"),
];

/// Names that are replaced by a list of arguments and stand alone in theirs.
const LISTS: &[&str] = &["resume_args", "cost_args"];

/// The longest text that Linux takes as one argument or variable, less some room for a name.
const LONGEST_ARGUMENT: usize = 128 * 1024 - 1024;

/// A text with placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Slot { name: String, optional: bool },
}

/// What a template may name: the settings a harness declares.
#[derive(Debug, Clone, Copy, Default)]
pub struct Names<'a> {
    /// Names of settings, for `{config.NAME}`.
    pub config: &'a [&'a str],
}

/// Where values come from.
#[derive(Debug, Clone, Copy)]
pub struct Values<'a> {
    /// The session; `None` for what must not depend on one, such as a probe.
    pub request: Option<&'a SessionRequest>,
    /// Path of the file with the prompt.
    pub prompt_file: &'a str,
    /// Settings of the harness.
    pub config: &'a serde_json::Map<String, serde_json::Value>,
    /// The refrain program.
    pub refrain: &'a Path,
    /// The harness's folder.
    pub dir: Option<&'a Path>,
    /// What the harness's clients want behind a provider's address.
    pub base_path: &'a BasePath,
}

impl Template {
    /// Parses a template.
    ///
    /// # Errors
    ///
    /// A message that names the placeholder and the nearest known one, or the brace that is out of place.
    pub fn parse(text: &str, names: Names<'_>) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            plain.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            let after = &rest[at + 1..];
            if after.starts_with(brace) {
                plain.push_str(brace);
                rest = &after[1..];
                continue;
            }
            let slot = after.find('}').filter(|_| brace == "{").map(|end| (&after[..end], &after[end + 1..]));
            let Some((name, tail)) = slot else {
                return Err(format!("a lone `{brace}` in `{text}`; write `{brace}{brace}` for a brace"));
            };
            let (name, optional) = name.strip_suffix('?').map_or((name, false), |name| (name, true));
            check_name(name, text, names)?;
            if !plain.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
            }
            pieces.push(Piece::Slot { name: name.to_owned(), optional });
            rest = tail;
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Self { pieces })
    }

    /// Tells whether the template names `name`.
    #[must_use]
    pub fn uses(&self, wanted: &str) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Slot { name, .. } if name == wanted))
    }

    /// Returns the name if the template is nothing but one placeholder.
    #[must_use]
    pub fn alone(&self) -> Option<&str> {
        match &self.pieces[..] {
            [Piece::Slot { name, .. }] => Some(name),
            _ => None,
        }
    }

    /// Puts the values in. `None`: an optional placeholder has no value, so the whole text is left out.
    ///
    /// # Errors
    ///
    /// A message that names the placeholder without a value.
    pub fn fill(&self, values: &Values<'_>) -> Result<Option<String>, String> {
        let mut filled = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => filled.push_str(text),
                Piece::Slot { name, optional } => match values.get(name, *optional)? {
                    Some(value) if !(*optional && value.is_empty()) => filled.push_str(&value),
                    _ if *optional => return Ok(None),
                    _ => return Err(format!("`{{{name}}}` has no value here; `{{{name}?}}` would leave it out")),
                },
            }
        }
        Ok(Some(filled))
    }
}

impl Values<'_> {
    /// Returns a value, if there is one. `fitting` asks for one that fits into an argument.
    fn get(&self, name: &str, fitting: bool) -> Result<Option<String>, String> {
        let path = |path: &Path| Some(path.to_string_lossy().into_owned());
        match name {
            "refrain" => return Ok(path(self.refrain)),
            "dir" => return Ok(self.dir.and_then(path)),
            _ => {}
        }
        if let Some(key) = name.strip_prefix("config.") {
            return Ok(self.config.get(key).and_then(shown));
        }
        let Some(request) = self.request else {
            return Err(format!("`{{{name}}}` is known for sessions only"));
        };
        if let Some(key) = name.strip_prefix("model.config.") {
            return Ok(request.model.config.get(key).and_then(shown));
        }
        Ok(match name {
            "prompt" => {
                let fits = request.prompt.len() <= LONGEST_ARGUMENT && !request.prompt.contains('\0');
                (fits || !fitting).then(|| request.prompt.clone())
            }
            "prompt_file" => Some(self.prompt_file.to_owned()),
            "model" => Some(request.model.name.clone()),
            "provider" => Some(request.model.provider.clone()),
            "session" => Some(request.index.to_string()),
            "task" => Some(request.task.clone()),
            "phase" => request.phase.clone(),
            "label" => request.label.clone(),
            "workspace" => path(&request.workspace),
            "home" => path(&request.home),
            "session_dir" => path(&request.session_dir),
            "resume" => request.resume.clone(),
            "base_url" => match &request.base_url {
                // The gateway stands where the provider does, without what this harness's clients want behind that.
                Some(gateway) => Some(format!("{gateway}{}", self.base_path.of(&request.model.provider))),
                None => request.model.config.get("base_url").and_then(shown),
            },
            "api_key" => request.api_key.as_ref().map(|key| key.expose().to_owned()),
            "max_cost" => request.max_cost.map(|cost| cost.dollars().to_string()),
            _ => None,
        })
    }
}

/// Shows a setting as a text; lists and objects have none.
fn shown(value: &serde_json::Value) -> Option<String> {
    match value {
        serde_json::Value::String(text) => Some(text.clone()),
        serde_json::Value::Number(number) => Some(number.to_string()),
        serde_json::Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

fn check_name(name: &str, text: &str, names: Names<'_>) -> Result<(), String> {
    let plain = PLACEHOLDERS.iter().map(|(name, _)| *name).chain(LISTS.iter().copied());
    if let Some(key) = name.strip_prefix("config.") {
        if names.config.contains(&key) {
            return Ok(());
        }
        let hint = nearest(key, names.config.iter().copied())
            .map_or_else(|| "it declares none like it".to_owned(), |near| format!("did you mean `{{config.{near}}}`?"));
        return Err(format!("`{{{name}}}` in `{text}` is no setting of this harness; {hint}"));
    }
    let model = name.strip_prefix("model.config.").is_some_and(|key| !key.is_empty());
    if model || plain.clone().any(|known| known == name) {
        return Ok(());
    }
    let hint = match nearest(name, plain) {
        Some(near) => format!("did you mean `{{{near}}}`?"),
        None => "write `{{` and `}}` for braces".to_owned(),
    };
    Err(format!("unknown placeholder `{{{name}}}` in `{text}`; {hint}"))
}

fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let scored = known.map(|known| (strsim::jaro_winkler(name, known), known));
    scored.filter(|(score, _)| *score > 0.75).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, known)| known)
}

#[cfg(test)]
mod tests;
