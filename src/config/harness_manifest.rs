//! `harness.toml`, checked.

mod output;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use include_dir::{Dir, include_dir};

use super::content_hash;
use super::diagnostic::{ConfigError, Diagnostic, Diagnostics};
use super::document::Node;
use super::fields::absolute;
use super::harness_metering::{BasePath, names};
use super::harness_settings;
use super::orchestrator_manifest::embedded_hash;
use super::shape::{check, manifest};
use super::source::{Source, Span, shown_path};
use super::toml_source;

pub use output::{JsonLinesSpec, LineMeaning, LineRule, OutputSpec, SessionFileSpec, UsageMode};

/// The file that makes a folder a harness.
pub const MANIFEST: &str = "harness.toml";

/// The file beside it that reads its output, where rules do not do.
pub const ADAPTER: &str = "adapter.lua";

/// The harnesses that come with the program.
static BUILTIN: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/harnesses");

/// A checked harness manifest. Templates may hold `{prompt}`, `{model}`, `{session}`, … (see `harness::template`).
#[derive(Debug, Clone, PartialEq)]
pub struct HarnessManifest {
    /// Its name; for a built-in equal to its folder.
    pub name: String,
    /// For people.
    pub description: String,
    /// The version of the real program that it was tried with, and how; `None` where it never was.
    pub verified: Option<String>,
    /// The folder it came from; `None` for one embedded in the binary.
    pub dir: Option<PathBuf>,
    /// Content hash of the folder.
    pub hash: String,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Arguments put in place of `{resume_args}` when an earlier session is continued; `None`: it cannot resume.
    pub resume_args: Option<Vec<String>>,
    /// Arguments put in place of `{cost_args}` when a session has a money limit.
    pub cost_args: Option<Vec<String>>,
    /// Variables (templates).
    pub env: BTreeMap<String, String>,
    /// The variable that carries the model's key into the process; `None`: the key keeps the name of the variable that it
    /// came from.
    pub key_env: Option<String>,
    /// What its clients want behind the address of a provider.
    pub base_path: BasePath,
    /// The share by which its own figures may differ from what the gateway counted, before that is worth a word.
    pub tolerance: f64,
    /// Command that prints a version and costs nothing.
    pub probe: Option<Vec<String>>,
    /// How it gets into an image that lacks it.
    pub install: Option<InstallSpec>,
    /// How the prompt gets in.
    pub prompt: PromptBy,
    /// Files written before a session: path template → content template.
    pub files: BTreeMap<String, String>,
    /// Declared settings (`config:` of the run file).
    pub config: BTreeMap<String, ConfigField>,
    /// How its output is read.
    pub output: OutputSpec,
    /// The file that it keeps of each session, where that tells what its output does not.
    pub session_file: Option<SessionFileSpec>,
    /// Text of the `adapter.lua` beside the manifest, which then reads the output instead of rules.
    pub adapter: Option<String>,
    /// Files of the user's home that hold a subscription's credentials, relative to it.
    pub credentials: Vec<String>,
}

/// How a harness gets into an image. What is installed is kept as an image of its own and used by later runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InstallSpec {
    /// Text that `sh` runs as root, with the variables `REFRAIN_VERSION`, `REFRAIN_HARNESS` and, where the harness is a
    /// folder, `REFRAIN_HARNESS_DIR`.
    pub script: Option<String>,
    /// Its own bound, within that of the run.
    pub timeout: Option<Duration>,
    /// Whether this program itself is copied in.
    pub host_program: bool,
}

/// How the prompt reaches the harness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PromptBy {
    /// As one argument, by `{prompt}` in `argv`.
    #[default]
    Argument,
    /// On standard input.
    Stdin,
    /// In a file, by `{prompt_file}` in `argv`.
    File,
}

/// One setting that a harness takes from the run file.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigField {
    /// Its type.
    pub kind: ConfigKind,
    /// Its default, if it is not required.
    pub default: Option<serde_json::Value>,
    /// For people.
    pub help: String,
}

/// Types of settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigKind {
    /// Text.
    Text,
    /// A path, made absolute against the run file.
    Path,
    /// A number.
    Number,
    /// `true` or `false`.
    Bool,
    /// A list of texts.
    TextList,
}

impl HarnessManifest {
    /// Loads a harness from a folder.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with its manifest, or a folder that cannot be read.
    pub fn from_dir(dir: &Path) -> Result<Self, ConfigError> {
        let shown = shown_path(dir);
        let unreadable =
            |error: &std::io::Error| Diagnostic::error(format!("cannot read `{shown}`: {error}")).in_file(&shown);
        let source = Source::read(&dir.join(MANIFEST))?;
        let root = absolute(dir).canonicalize().map_err(|error| unreadable(&error))?;
        let hash = content_hash::of_path(&root).map_err(|error| unreadable(&error))?;
        let adapter = match Source::read(&root.join(ADAPTER)) {
            Ok(adapter) => Some(adapter.text().to_owned()),
            Err(_) if !root.join(ADAPTER).exists() => None,
            Err(error) => return Err(error.into()),
        };
        Self::decode(&source, Some(root), hash, adapter)
    }

    /// Returns the harnesses that come with the program, sorted by name.
    ///
    /// # Errors
    ///
    /// A mistake in an embedded manifest; the tests of this crate rule it out.
    pub fn builtins() -> Result<Vec<Self>, ConfigError> {
        let mut all = Vec::new();
        for dir in BUILTIN.dirs() {
            let Some(file) = dir.get_file(dir.path().join(MANIFEST)) else { continue };
            let shown = format!("harnesses/{}", file.path().display());
            let source = Source::embedded(&shown, file.contents())?;
            let adapter = dir.get_file(dir.path().join(ADAPTER)).and_then(|file| file.contents_utf8());
            all.push(Self::decode(&source, None, embedded_hash(dir), adapter.map(str::to_owned))?);
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    /// Stands for a harness that the host itself brings: it has a name and nothing to start.
    #[must_use]
    pub fn of_host(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            description: "a harness of the host".to_owned(),
            verified: None,
            dir: None,
            // Its code is not in reach; the name is all that a cell's key can tell of it.
            hash: content_hash::of_files(vec![("harness of the host".to_owned(), name.as_bytes())]),
            argv: Vec::new(),
            resume_args: None,
            cost_args: None,
            env: BTreeMap::new(),
            key_env: None,
            base_path: BasePath::default(),
            tolerance: 0.0,
            probe: None,
            install: None,
            prompt: PromptBy::Stdin,
            files: BTreeMap::new(),
            config: BTreeMap::new(),
            output: OutputSpec::Text,
            session_file: None,
            adapter: None,
            credentials: Vec::new(),
        }
    }

    /// Tells whether it stands for a harness of the host.
    #[must_use]
    pub fn is_of_host(&self) -> bool {
        self.argv.is_empty()
    }

    /// Tells whether a template names `{dir}`, the harness's own folder.
    #[must_use]
    pub fn names_dir(&self) -> bool {
        self.names("dir")
    }

    /// Tells whether a template names `{NAME}` or `{NAME?}`.
    #[must_use]
    pub fn names(&self, name: &str) -> bool {
        let lists = [Some(&self.argv), self.resume_args.as_ref(), self.cost_args.as_ref(), self.probe.as_ref()];
        let settings = self.config.values().filter_map(|field| field.default.as_ref()).map(ToString::to_string);
        let named = |text: &str| names(text, name);
        lists.into_iter().flatten().flatten().any(|text| named(text))
            || self.env.values().any(|text| named(text))
            || self.files.iter().any(|(path, content)| named(path) || named(content))
            || settings.into_iter().any(|text| named(&text))
    }

    pub(super) fn decode(
        source: &Arc<Source>,
        dir: Option<PathBuf>,
        hash: String,
        adapter: Option<String>,
    ) -> Result<Self, ConfigError> {
        let node = toml_source::parse(source).map_err(ConfigError::new)?;
        let mut out = Diagnostics::default();
        check::section(&node, &manifest::HARNESS, &Span::new(source, 0..source.text().len()), &mut out);
        let run = node.get("run");
        let list = |key: &str| run.filter(|run| run.get(key).is_some()).map(|run| run.texts_of(key));
        let manifest = Self {
            name: node.text_of("name").unwrap_or_default(),
            description: node.text_of("description").unwrap_or_default(),
            verified: node.text_of("verified"),
            dir,
            hash,
            argv: list("argv").unwrap_or_default(),
            resume_args: list("resume_args"),
            cost_args: list("cost_args"),
            env: texts(node.get("env")),
            key_env: node.text_of("key_env"),
            base_path: BasePath::read(node.get("base_path"), &mut out),
            tolerance: node.number_of("tolerance").unwrap_or(0.0),
            probe: node.get("probe").map(|probe| probe.texts_of("argv")),
            install: node.get("install").map(|table| install(table, &mut out)),
            prompt: match run.and_then(|run| run.text_of("prompt")).as_deref() {
                Some("stdin") => PromptBy::Stdin,
                Some("file") => PromptBy::File,
                _ => PromptBy::Argument,
            },
            files: texts(node.get("files")),
            config: node.get("config").map(|table| harness_settings::declared(table, &mut out)).unwrap_or_default(),
            output: output::output(node.get("output"), &mut out),
            session_file: node.get("output").and_then(|output| output.get("file")).map(output::session_file),
            adapter,
            credentials: node.texts_of("credentials"),
        };
        credentials_stay_below(&manifest, &node, &mut out);
        reads_one_way(&manifest, &node, &mut out);
        prompt_gets_in(&manifest, run, &mut out);
        out.finish().map(|_| manifest)
    }
}

/// A prompt that the argv template does not name would never reach the agent.
fn prompt_gets_in(manifest: &HarnessManifest, run: Option<&Node>, out: &mut Diagnostics) {
    let placeholder = match manifest.prompt {
        PromptBy::Argument => "{prompt}",
        PromptBy::File => "{prompt_file}",
        PromptBy::Stdin => return,
    };
    let Some(argv) = run.and_then(|run| run.get("argv")).filter(|argv| !argv.items().is_empty()) else { return };
    if !manifest.argv.iter().any(|argument| argument.contains(placeholder)) {
        out.push(
            Diagnostic::error(format!("the prompt never reaches the harness: `argv` has no `{placeholder}`"))
                .at(&argv.span, "no place for the prompt")
                .hint("add it, or set `prompt = \"stdin\"`"),
        );
    }
}

/// What is copied from the user's home is named by paths that stay in it.
fn credentials_stay_below(manifest: &HarnessManifest, node: &Node, out: &mut Diagnostics) {
    let Some(entry) = node.entry("credentials") else { return };
    let stays = |path: &String| {
        let parts = Path::new(path).components().collect::<Vec<_>>();
        !parts.is_empty() && parts.iter().all(|part| matches!(part, std::path::Component::Normal(_)))
    };
    if let Some(path) = manifest.credentials.iter().find(|path| !stays(path)) {
        out.push(
            Diagnostic::error(format!("`{path}` is no path below the home folder"))
                .at(&entry.value.span, "absolute, or leads out")
                .hint("write it relative to the home, such as `.agent/credentials.json`"),
        );
    }
}

/// An adapter reads everything; rules beside it would never be asked.
fn reads_one_way(manifest: &HarnessManifest, node: &Node, out: &mut Diagnostics) {
    let rules =
        node.get("output").and_then(|output| output.entry("rule").or_else(|| output.get("file")?.entry("rule")));
    if let Some(entry) = rules.filter(|_| manifest.adapter.is_some()) {
        out.push(
            Diagnostic::error(format!("rules and an `{ADAPTER}` beside the manifest"))
                .at(&entry.key_span, "never used")
                .hint(format!("remove the rules, or `{ADAPTER}`")),
        );
    }
}

/// The longest script: the kernel takes it as one argument.
const LONGEST_SCRIPT: usize = 64 * 1024;

fn install(table: &Node, out: &mut Diagnostics) -> InstallSpec {
    let spec = InstallSpec {
        script: table.text_of("script").filter(|script| !script.trim().is_empty()),
        timeout: table.duration_of("timeout"),
        host_program: table.bool_of("host_program").unwrap_or_default(),
    };
    match &spec.script {
        None if !spec.host_program => out.push(
            Diagnostic::error("`[install]` installs nothing")
                .at(&table.span, "neither a `script` nor `host_program = true`")
                .hint("add the `script` that installs the harness, or leave the table out"),
        ),
        Some(script) if script.len() > LONGEST_SCRIPT => out.push(
            Diagnostic::error(format!("the install script has {} bytes; at most {LONGEST_SCRIPT} fit", script.len()))
                // Its place would be quoted whole.
                .in_file(table.span.source.shown())
                .hint("put the rest into files beside the manifest; they are in $REFRAIN_HARNESS_DIR"),
        ),
        _ => {}
    }
    spec
}

pub(super) fn texts(table: Option<&Node>) -> BTreeMap<String, String> {
    let entries = table.map(Node::entries).unwrap_or_default();
    entries.iter().filter_map(|entry| Some((entry.key.clone(), entry.value.text()?.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(more: &str) -> Result<HarnessManifest, String> {
        let dir = tempfile::tempdir().expect("a folder");
        let text = format!("name = \"mine\"\n[run]\nargv = [\"agent\", \"{{prompt}}\"]\n{more}");
        std::fs::write(dir.path().join(MANIFEST), text).expect("written");
        HarnessManifest::from_dir(dir.path()).map_err(|error| error.render(false))
    }

    #[test]
    fn an_installer_is_read() {
        let manifest = load("[install]\nscript = \"npm install\"\ntimeout = \"5m\"\n").expect("valid");
        let expected = InstallSpec {
            script: Some("npm install".to_owned()),
            timeout: Some(Duration::from_secs(300)),
            host_program: false,
        };
        assert_eq!(manifest.install, Some(expected));
        assert_eq!(load("").expect("valid").install, None);
        assert!(load("[install]\nhost_program = true\n").expect("valid").install.is_some_and(|spec| spec.host_program));
    }

    #[test]
    fn an_installer_that_cannot_run_is_refused() {
        let long = format!("[install]\nscript = \"{}\"\n", "x".repeat(LONGEST_SCRIPT + 1));
        let error = load(&long).expect_err("too long");
        assert!(error.contains("the install script has 65537 bytes"), "{error}");
    }

    #[test]
    fn what_exit_codes_mean_is_read() {
        let read = |codes: &str| load(&format!("[output]\nformat = \"json-lines\"\nexit_codes = {codes}\n"));
        let OutputSpec::JsonLines(spec) = read("{ 53 = \"turn_limit\" }").expect("valid").output else {
            panic!("no JSON lines");
        };
        assert_eq!(spec.exit_codes, [(53, LineMeaning::TurnLimit)].into());
        assert!(read("{ x = \"turn_limit\" }").expect_err("no number").contains("`x` is no exit code"));
        assert!(read("{ 53 = \"message\" }").is_err(), "no end of a turn");
    }

    #[test]
    fn a_template_that_names_the_folder_is_seen() {
        assert!(!load("").expect("valid").names_dir());
        assert!(load("[env]\nA = \"{dir}/x\"\n").expect("valid").names_dir());
        assert!(load("[probe]\nargv = [\"{dir}/x\"]\n").expect("valid").names_dir());
        assert!(load("[config.a]\ntype = \"text\"\ndefault = \"{dir}/x\"\n").expect("valid").names_dir());
    }
}
