//! `orchestrator.toml`, checked.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use include_dir::{Dir, include_dir};

use crate::domain::{ParamValue, Params};

use super::content_hash;
use super::diagnostic::{ConfigError, Diagnostic, Diagnostics, Warnings};
use super::document::Node;
use super::fields::absolute;
use super::inside;
use super::params::{self, ParamError};
use super::shape::{check, manifest};
use super::source::{Source, shown_path};
use super::toml_source;

/// The file that makes a folder an orchestrator.
pub const MANIFEST: &str = "orchestrator.toml";

/// The largest file of an orchestrator that is read.
const MAX_FILE: u64 = 4 * 1024 * 1024;

/// The orchestrators that come with the program.
static BUILTIN: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/orchestrators");

/// A checked orchestrator manifest with the files beside it.
#[derive(Debug, Clone, PartialEq)]
pub struct OrchestratorManifest {
    /// Its slug; for a built-in equal to its folder.
    pub slug: String,
    /// For people.
    pub name: String,
    /// For people.
    pub description: String,
    /// Where it came from.
    pub origin: Origin,
    /// Content hash of the whole directory (names and bytes).
    pub hash: String,
    /// The runner's path relative to the directory.
    pub runner: String,
    /// Declared parameters.
    pub params: BTreeMap<String, ParamSpec>,
}

/// Where an orchestrator lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Embedded in the binary: files by relative path.
    Builtin,
    /// A directory on the host, absolute and canonical.
    Directory(PathBuf),
}

/// A declared parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct ParamSpec {
    /// Its type.
    pub kind: ParamKind,
    /// Type of a list's items; `None`: anything.
    pub items: Option<ParamKind>,
    /// Its default; a parameter without one must be given.
    pub default: Option<ParamValue>,
    /// Least value of a number.
    pub min: Option<f64>,
    /// Greatest value of a number.
    pub max: Option<f64>,
    /// Allowed values.
    pub choices: Vec<ParamValue>,
    /// For people.
    pub help: Option<String>,
}

/// Types of parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamKind {
    /// `true` or `false`.
    Boolean,
    /// A whole number.
    Integer,
    /// Any finite number; whole numbers are accepted.
    Number,
    /// Text.
    String,
    /// A list.
    List,
}

/// Reads the parameters that the text of a manifest declares, whatever else is in it.
///
/// # Errors
///
/// What is wrong with the text as TOML, or with a declaration.
pub fn declared_params(text: &str) -> Result<BTreeMap<String, ParamSpec>, ConfigError> {
    let source = Source::embedded(MANIFEST, text.as_bytes())?;
    let node = toml_source::parse(&source).map_err(ConfigError::new)?;
    let mut out = Diagnostics::default();
    let declared = node.get("params").map(|table| params::declared(table, &mut out)).unwrap_or_default();
    out.finish().map(|_| declared)
}

impl OrchestratorManifest {
    /// Loads an orchestrator from a folder.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with its manifest, a runner that is not there, or a folder that cannot be read.
    pub fn from_dir(dir: &Path) -> Result<Self, ConfigError> {
        Self::read_dir(dir).map(|(manifest, _)| manifest)
    }

    /// Loads an orchestrator from a folder, with what its author should know although it can run.
    ///
    /// # Errors
    ///
    /// Like [`OrchestratorManifest::from_dir`].
    pub fn read_dir(dir: &Path) -> Result<(Self, Warnings), ConfigError> {
        let shown = shown_path(dir);
        let unreadable =
            |error: &io::Error| Diagnostic::error(format!("cannot read `{shown}`: {error}")).in_file(&shown);
        let source = Source::read(&dir.join(MANIFEST))?;
        let root = absolute(dir).canonicalize().map_err(|error| unreadable(&error))?;
        let hash = content_hash::of_path(&root).map_err(|error| unreadable(&error))?;
        Self::decode(&source, Origin::Directory(root), hash)
    }

    /// Returns the orchestrators that come with the program, sorted by slug.
    ///
    /// # Errors
    ///
    /// A mistake in an embedded manifest; the tests of this crate rule it out.
    pub fn builtins() -> Result<Vec<Self>, ConfigError> {
        let mut all = Vec::new();
        for dir in BUILTIN.dirs() {
            let Some(file) = dir.get_file(dir.path().join(MANIFEST)) else { continue };
            let shown = format!("orchestrators/{}", file.path().display());
            let source = Source::embedded(&shown, file.contents())?;
            all.push(Self::decode(&source, Origin::Builtin, embedded_hash(dir))?.0);
        }
        all.sort_by(|a, b| a.slug.cmp(&b.slug));
        Ok(all)
    }

    /// Reads a file of the orchestrator's folder by its relative path, with `/` between parts.
    ///
    /// # Errors
    ///
    /// `NotFound`; `InvalidInput` for a path that is absolute or leads out, also through a link; `FileTooLarge` above 4 MB.
    pub fn read_file(&self, relative: &str) -> io::Result<Vec<u8>> {
        inside::check(relative)
            .map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, format!("`{relative}` {why}")))?;
        match &self.origin {
            Origin::Builtin => BUILTIN
                .get_file(Path::new(&self.slug).join(relative))
                .map(|file| file.contents().to_vec())
                .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("`{relative}` does not exist"))),
            Origin::Directory(root) => {
                let path = root.join(relative).canonicalize()?;
                if !path.starts_with(root) {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidInput,
                        format!("`{relative}` leads out of the folder"),
                    ));
                }
                if std::fs::metadata(&path)?.len() > MAX_FILE {
                    return Err(io::Error::new(
                        io::ErrorKind::FileTooLarge,
                        format!("`{relative}` is larger than 4 MB"),
                    ));
                }
                std::fs::read(path)
            }
        }
    }

    /// Completes given parameters with the declared defaults and checks all of them.
    ///
    /// # Errors
    ///
    /// A [`ParamError`] for a value that is unknown, does not fit, or is missing.
    pub fn complete_params(&self, given: Params) -> Result<Params, ParamError> {
        params::complete(&self.params, given)
    }

    /// Tells whether the runner is a Lua script; else it is an executable file.
    #[must_use]
    pub fn is_lua(&self) -> bool {
        Path::new(&self.runner).extension().is_some_and(|extension| extension == "lua" || extension == "luau")
    }

    pub(super) fn decode(source: &Arc<Source>, origin: Origin, hash: String) -> Result<(Self, Warnings), ConfigError> {
        let node = toml_source::parse(source).map_err(ConfigError::new)?;
        let mut out = Diagnostics::default();
        let whole = super::source::Span::new(source, 0..source.text().len());
        check::section(&node, &manifest::ORCHESTRATOR, &whole, &mut out);
        let declared = node.get("params").map(|table| params::declared(table, &mut out)).unwrap_or_default();
        let slug = node.text_of("slug").unwrap_or_default();
        let manifest = Self {
            name: node.text_of("name").unwrap_or_else(|| slug.clone()),
            description: node.text_of("description").unwrap_or_default(),
            origin,
            hash,
            runner: node.text_of("runner").unwrap_or_else(|| "runner.lua".to_owned()),
            params: declared,
            slug,
        };
        if !out.has_errors()
            && let Err(error) = manifest.read_file(&manifest.runner)
        {
            out.push(manifest.no_runner(&node, source, &error));
        }
        out.finish().map(|warnings| (manifest, warnings))
    }

    fn no_runner(&self, node: &Node, source: &Arc<Source>, error: &io::Error) -> Diagnostic {
        let problem = match error.kind() {
            io::ErrorKind::NotFound => "does not exist".to_owned(),
            _ => format!("cannot be read: {error}"),
        };
        let diagnostic = Diagnostic::error(format!("the runner `{}` {problem}", self.runner));
        match node.get("runner") {
            Some(runner) => diagnostic.at(&runner.span, "named here"),
            None => diagnostic.in_file(source.shown()),
        }
        .hint(format!("put the script beside `{MANIFEST}`, or name it in `runner`"))
    }
}

/// Hashes an embedded folder exactly as [`content_hash::of_files`] hashes named contents.
pub(crate) fn embedded_hash(dir: &Dir<'_>) -> String {
    let mut files = Vec::new();
    collect(dir, dir.path(), &mut files);
    content_hash::of_files(files)
}

fn collect<'d>(dir: &'d Dir<'d>, root: &Path, into: &mut Vec<(String, &'d [u8])>) {
    for file in dir.files() {
        let name = file.path().strip_prefix(root).unwrap_or(file.path());
        into.push((name.to_string_lossy().into_owned(), file.contents()));
    }
    for inner in dir.dirs() {
        collect(inner, root, into);
    }
}
