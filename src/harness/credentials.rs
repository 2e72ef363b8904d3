//! A subscription's login: the files that a manifest names, in the agent's home for as long as a session runs.
//!
//! Only these files are ever read, never the rest of the folder that they are in. They are written by the agent's own
//! user, so that it owns them and nobody else can read them, and removed when the session is over.

use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use super::HarnessError;
use crate::domain::Model;
use crate::domain::model::AuthMode;
use crate::runtime::{Command, Environment, Output, Stdin};

/// The largest login that is copied; they have a few kilobytes.
const LARGEST: u64 = 1 << 20;

/// Reads the files that a session needs: absolute paths inside the environment, and contents. `names` are relative to the
/// home, as the manifest has them.
pub(super) fn read(model: &Model, names: &[String], home: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>, String> {
    if model.auth_mode != AuthMode::Subscription {
        return Ok(Vec::new());
    }
    let Some(folder) = model.credentials_path.as_deref().map(Path::new) else { return Ok(Vec::new()) };
    if names.is_empty() {
        return Err("it cannot use a subscription: its manifest names no `credentials`".to_owned());
    }
    let mut files = Vec::new();
    for name in names {
        let found = places(folder, name).into_iter().find(|path| path.is_file());
        let Some(path) = found else {
            return Err(format!(
                "`credentials_path` of model `{}` has no `{name}`: log in there, or name the home of who did",
                model.name
            ));
        };
        let unreadable = |error: std::io::Error| format!("cannot read `{}`: {error}", path.display());
        if path.metadata().map_err(unreadable)?.len() > LARGEST {
            return Err(format!("`{}` is too large for a login", path.display()));
        }
        files.push((home.join(name), std::fs::read(&path).map_err(unreadable)?));
    }
    Ok(files)
}

/// Returns the secrets in a model's login, for a redactor: every long text of the files that a session would get.
pub(crate) fn secrets(model: &Model, names: &[String]) -> Vec<String> {
    let files = read(model, names, Path::new("/")).unwrap_or_default();
    files.iter().flat_map(|(_, content)| secrets_in(content)).collect()
}

fn secrets_in(content: &[u8]) -> Vec<String> {
    const SHORTEST: usize = 16;
    let mut found = Vec::new();
    let text = String::from_utf8_lossy(content);
    match serde_json::from_str::<serde_json::Value>(&text) {
        Ok(value) => texts(&value, &mut found),
        Err(_) => found.extend(text.lines().map(|line| line.trim().to_owned())),
    }
    found.retain(|text| text.len() >= SHORTEST);
    found
}

/// Returns the secrets in the files as a session has left them: a program that renews its login writes the new one there.
///
/// The agent can write these files as well. What it puts there is blanked in what is kept, so only what looks like a token
/// counts, and only so much of it.
pub(super) async fn held(env: &dyn Environment, paths: &[PathBuf]) -> Vec<String> {
    const MOST: usize = 64;
    let mut found = Vec::new();
    for path in paths {
        let read = env.exec(&shell("cat \"$1\"", path), Output::capture(), &CancellationToken::new()).await;
        // One that is gone, or too large to be a login, holds nothing that a log would show.
        let whole = read.ok().filter(|report| report.success() && !report.stdout.cut);
        found.extend(whole.into_iter().flat_map(|report| secrets_in(&report.stdout.bytes)));
    }
    found.retain(|text| is_token(text));
    found.truncate(MOST);
    found
}

/// Tells a token from words, names and addresses.
fn is_token(text: &str) -> bool {
    let has = |kind: fn(&char) -> bool| text.chars().any(|c| kind(&c));
    has(char::is_ascii_digit) && has(char::is_ascii_alphabetic) && !has(|c| c.is_whitespace())
}

fn texts(value: &serde_json::Value, found: &mut Vec<String>) {
    match value {
        serde_json::Value::String(text) => found.push(text.clone()),
        serde_json::Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        serde_json::Value::Object(fields) => fields.values().for_each(|field| texts(field, found)),
        _ => {}
    }
}

/// Where a file may be: below a home, in the program's own folder, or the path itself.
fn places(folder: &Path, name: &str) -> Vec<PathBuf> {
    let file = Path::new(name).file_name().map(|file| folder.join(file));
    [folder.join(name)].into_iter().chain(file).chain([folder.to_owned()]).collect()
}

/// Writes the files as the agent's user, for it alone.
pub(super) async fn put(env: &dyn Environment, files: &[(PathBuf, Vec<u8>)]) -> Result<(), HarnessError> {
    const WRITE: &str = "umask 077 && mkdir -p \"${1%/*}\" && rm -f \"$1\" && cat > \"$1\"";
    for (path, content) in files {
        let mut command = shell(WRITE, path);
        command.stdin = Stdin::Bytes(content.clone());
        let report = env.exec(&command, Output::capture(), &CancellationToken::new()).await?;
        if !report.success() {
            return Err(HarnessError::File {
                action: "write",
                path: path.clone(),
                source: std::io::Error::other("the environment refused"),
            });
        }
    }
    Ok(())
}

/// Removes the files; returns what a reader should know.
pub(super) async fn remove(env: &dyn Environment, files: &[PathBuf]) -> Option<String> {
    let mut left = 0;
    for path in files {
        let command = shell("rm -f \"$1\"", path);
        let removed = env.exec(&command, Output::capture(), &CancellationToken::new()).await;
        left += usize::from(!removed.is_ok_and(|report| report.success()));
    }
    (left > 0).then(|| format!("{left} files of the login could not be removed; the environment's end removes them"))
}

fn shell(script: &str, path: &Path) -> Command {
    let path = path.to_string_lossy().into_owned();
    Command::new(vec!["sh".to_owned(), "-c".to_owned(), script.to_owned(), "sh".to_owned(), path])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{CostMode, ModelRole};

    fn model(path: Option<&Path>) -> Model {
        Model {
            name: "m".to_owned(),
            provider: "p".to_owned(),
            role: ModelRole::Implementation,
            auth_mode: AuthMode::Subscription,
            api_key_env: None,
            credentials_path: path.map(|path| path.to_string_lossy().into_owned()),
            cost_mode: CostMode::Subscription,
            config: serde_json::Map::new(),
        }
    }

    #[test]
    fn only_the_named_file_is_read_wherever_the_path_points() {
        let home = tempfile::tempdir().expect("a folder");
        let folder = home.path().join(".agent");
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("auth.json"), "login").expect("written");
        std::fs::write(folder.join("history.jsonl"), "private").expect("written");
        let names = [".agent/auth.json".to_owned()];
        for path in [home.path(), &folder, &folder.join("auth.json")] {
            let files = read(&model(Some(path)), &names, Path::new("/home/agent")).expect("read");
            assert_eq!(files, [(PathBuf::from("/home/agent/.agent/auth.json"), b"login".to_vec())]);
        }
        let error = read(&model(Some(home.path())), &["other.json".to_owned()], Path::new("/h")).expect_err("missing");
        assert!(error.contains("has no `other.json`"), "{error}");
        assert!(read(&model(Some(home.path())), &[], Path::new("/h")).expect_err("none").contains("cannot use"));
        std::fs::write(folder.join("auth.json"), r#"{"tokens":{"access":"a-secret-of-some-length","kind":"bearer"}}"#)
            .expect("written");
        assert_eq!(secrets(&model(Some(home.path())), &names), ["a-secret-of-some-length"]);
        assert!(secrets(&model(None), &names).is_empty());
        let by_key = Model { auth_mode: AuthMode::ApiKey, ..model(Some(home.path())) };
        assert_eq!(read(&by_key, &names, Path::new("/h")), Ok(Vec::new()));
    }
}
