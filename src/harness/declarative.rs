//! A harness that is nothing but its manifest.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::json_lines::{JsonLinesReader, Which};
use super::session_file::{self, SessionFile, WithSessionFile};
use super::template::{Names, Template, Values};
use super::text::TextReader;
use super::{Harness, HarnessError, OutputReader, Prepared, ReaderFactory, SessionRequest, credentials};
use crate::config::gateway::KnownProvider;
use crate::config::harness_manifest::{ConfigKind, HarnessManifest, OutputSpec, PromptBy};
use crate::config::plan::HarnessEntry;
use crate::domain::Model;
use crate::runtime::{Command, Stdin};

/// The file that holds the prompt, in the session's folder.
const PROMPT_FILE: &str = "prompt.md";

/// A harness read from a `harness.toml`.
#[derive(Debug, Clone)]
pub struct DeclarativeHarness {
    name: String,
    manifest: Arc<HarnessManifest>,
    config: serde_json::Map<String, serde_json::Value>,
    refrain: PathBuf,
    dir: Option<PathBuf>,
    /// Whether files that settings name must be copied to be there.
    copies_files: bool,
    argv: Vec<Argument>,
    resume_args: Vec<Argument>,
    cost_args: Vec<Argument>,
    env: Vec<(String, Template)>,
    files: Vec<(Template, Template)>,
    probe: Option<Vec<String>>,
    session_file: Option<Template>,
    readers: Option<Arc<dyn ReaderFactory>>,
}

/// One item of an argument list.
#[derive(Debug, Clone)]
enum Argument {
    One(Template),
    /// Templates of a setting that is a list.
    Many(Vec<Template>),
    Resume,
    Cost,
}

impl DeclarativeHarness {
    /// Makes a harness from what a run declares. `refrain` is the path of this program, for harnesses that call it.
    ///
    /// # Errors
    ///
    /// [`HarnessError::Template`] for an unknown placeholder, or one in a place where it has no value.
    pub fn new(entry: &HarnessEntry, refrain: &Path) -> Result<Self, HarnessError> {
        Self::with(entry, refrain, entry.manifest.dir.clone(), false)
    }

    /// Makes a harness for environments that do not see the host's files. `refrain` and `dir` say where in them the
    /// program and the harness's folder lie; a setting of the type `path` that names a file of the host is copied into the
    /// folder of each session.
    ///
    /// # Errors
    ///
    /// As for [`DeclarativeHarness::new`].
    pub fn in_image(entry: &HarnessEntry, refrain: &Path, dir: &Path) -> Result<Self, HarnessError> {
        Self::with(entry, refrain, entry.manifest.dir.as_ref().map(|_| dir.to_owned()), true)
    }

    fn with(
        entry: &HarnessEntry,
        refrain: &Path,
        dir: Option<PathBuf>,
        copies_files: bool,
    ) -> Result<Self, HarnessError> {
        let manifest = Arc::clone(&entry.manifest);
        let loader = Loader { entry, names: entry.manifest.config.keys().map(String::as_str).collect() };
        let failed = |message: String| HarnessError::Template { harness: entry.name.clone(), message };
        let mut harness = Self {
            argv: loader.arguments(&manifest.argv).map_err(failed)?,
            resume_args: loader.arguments(manifest.resume_args.as_deref().unwrap_or_default()).map_err(failed)?,
            cost_args: loader.arguments(manifest.cost_args.as_deref().unwrap_or_default()).map_err(failed)?,
            env: loader.env().map_err(failed)?,
            files: loader.files().map_err(failed)?,
            probe: None,
            session_file: loader.session_file().map_err(failed)?,
            readers: None,
            name: entry.name.clone(),
            config: entry.config.clone(),
            refrain: refrain.to_owned(),
            dir,
            copies_files,
            manifest,
        };
        harness.check().map_err(failed)?;
        harness.probe = harness.fill_probe(&loader).map_err(failed)?;
        Ok(harness)
    }

    /// Lets `readers` read the output, for a manifest with an adapter.
    #[must_use]
    pub fn reading_by(mut self, readers: Arc<dyn ReaderFactory>) -> Self {
        self.readers = Some(readers);
        self
    }

    /// Checks what no single template shows.
    fn check(&self) -> Result<(), String> {
        let has = |wanted: fn(&Argument) -> bool| self.argv.iter().any(wanted);
        if self.manifest.resume_args.is_some() && !has(|argument| matches!(argument, Argument::Resume)) {
            return Err("`resume_args` is given, but `argv` has no `{resume_args}`".to_owned());
        }
        if self.manifest.cost_args.is_some() && !has(|argument| matches!(argument, Argument::Cost)) {
            return Err("`cost_args` is given, but `argv` has no `{cost_args}`".to_owned());
        }
        let mut inner = self.resume_args.iter().chain(&self.cost_args);
        if inner.any(|argument| matches!(argument, Argument::Resume | Argument::Cost)) {
            return Err("`resume_args` and `cost_args` cannot hold each other".to_owned());
        }
        Ok(())
    }

    fn fill_probe(&self, loader: &Loader<'_>) -> Result<Option<Vec<String>>, String> {
        let Some(probe) = &self.manifest.probe else { return Ok(None) };
        let values = self.values(None, "", &self.config);
        let argv: Vec<String> = self.fill(&loader.arguments(probe)?, &values)?;
        Ok(Some(argv))
    }

    fn values<'a>(
        &'a self,
        request: Option<&'a SessionRequest>,
        prompt_file: &'a str,
        config: &'a serde_json::Map<String, serde_json::Value>,
    ) -> Values<'a> {
        let base_path = &self.manifest.base_path;
        Values { request, prompt_file, config, refrain: &self.refrain, dir: self.dir.as_deref(), base_path }
    }

    /// Takes the files of the host that settings name along into a session's folder, and lets the settings name the copies.
    /// A path that the host does not have is one of the environment.
    fn copy_files(
        &self,
        request: &SessionRequest,
        files: &mut Vec<(PathBuf, Vec<u8>)>,
    ) -> Result<serde_json::Map<String, serde_json::Value>, String> {
        let mut config = self.config.clone();
        if !self.copies_files {
            return Ok(config);
        }
        for (name, field) in &self.manifest.config {
            let path = config.get(name).and_then(|value| value.as_str()).map(PathBuf::from);
            let Some(path) = path.filter(|path| field.kind == ConfigKind::Path && path.exists()) else { continue };
            if path.is_dir() {
                return Err(format!(
                    "the setting `{name}` names the folder `{}`, and only single files are copied into an environment; \
                     put the folder into the image",
                    path.display()
                ));
            }
            let content = std::fs::read(&path).map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
            let file = path.file_name().map(|file| file.to_string_lossy().into_owned()).unwrap_or_default();
            let copy = request.session_dir.join(format!("{name}-{file}"));
            config.insert(name.clone(), copy.to_string_lossy().into());
            files.push((copy, content));
        }
        Ok(config)
    }

    fn fill(&self, arguments: &[Argument], values: &Values<'_>) -> Result<Vec<String>, String> {
        let mut argv = Vec::new();
        for argument in arguments {
            match argument {
                Argument::One(template) => argv.extend(template.fill(values)?),
                Argument::Many(templates) => {
                    for template in templates {
                        argv.extend(template.fill(values)?);
                    }
                }
                Argument::Resume if values.request.is_some_and(|request| request.resume.is_some()) => {
                    argv.extend(self.fill(&self.resume_args, values)?);
                }
                Argument::Cost if values.request.is_some_and(|request| request.max_cost.is_some()) => {
                    argv.extend(self.fill(&self.cost_args, values)?);
                }
                Argument::Resume | Argument::Cost => {}
            }
        }
        Ok(argv)
    }

    /// Tells whether a session needs the file with the prompt, or at least the folder it is in.
    fn needs_session_dir(&self) -> bool {
        let names = |template: &Template| template.uses("prompt_file") || template.uses("session_dir");
        let lists = [&self.argv, &self.resume_args, &self.cost_args];
        let in_argv = lists.into_iter().flatten().any(|argument| match argument {
            Argument::One(template) => names(template),
            Argument::Many(templates) => templates.iter().any(names),
            Argument::Resume | Argument::Cost => false,
        });
        let in_files = self.files.iter().any(|(path, content)| names(path) || names(content));
        in_argv || in_files || self.env.iter().any(|(_, template)| names(template))
    }

    /// The variables that carry the key: the one that the harness reads; where it names none, the one that the run file names,
    /// and the one where programs look for a key of this provider.
    fn key_variables(&self, model: &Model) -> Vec<String> {
        if let Some(name) = &self.manifest.key_env {
            return vec![name.clone()];
        }
        let usual = KnownProvider::named(&model.provider).map(|known| known.api_key_env.to_owned());
        let mut names: Vec<_> = model.api_key_env.iter().cloned().chain(usual).collect();
        names.dedup();
        names
    }

    fn prepare_with(&self, request: &SessionRequest) -> Result<Prepared, String> {
        let prompt_file = request.session_dir.join(PROMPT_FILE);
        let shown = prompt_file.to_string_lossy();
        let mut files = Vec::new();
        let config = self.copy_files(request, &mut files)?;
        let values = self.values(Some(request), &shown, &config);
        let mut command = Command::new(self.fill(&self.argv, &values)?);
        command.cwd = Some(request.workspace.clone());
        for (name, template) in &self.env {
            command.env.extend(template.fill(&values)?.map(|value| (name.clone(), value)));
        }
        if let Some(key) = &request.api_key {
            let names = self.key_variables(&request.model).into_iter();
            command.env.extend(names.map(|name| (name, key.expose().to_owned())));
        }
        if self.manifest.prompt == PromptBy::Stdin {
            command.stdin = Stdin::Bytes(request.prompt.clone().into_bytes());
        }
        for (path, content) in &self.files {
            if let (Some(path), Some(content)) = (path.fill(&values)?, content.fill(&values)?) {
                if !Path::new(&path).is_absolute() {
                    return Err(format!("the file `{path}` needs an absolute path; begin it with `{{home}}/`"));
                }
                files.push((PathBuf::from(path), content.into_bytes()));
            }
        }
        if self.needs_session_dir() {
            files.push((prompt_file.clone(), request.prompt.clone().into_bytes()));
        }
        let credentials = credentials::read(&request.model, &self.manifest.credentials, &request.home)?;
        Ok(Prepared { command, files, credentials })
    }
}

impl Harness for DeclarativeHarness {
    fn name(&self) -> &str {
        &self.name
    }

    fn probe(&self) -> Option<Command> {
        self.probe.clone().map(Command::new)
    }

    fn can_resume(&self) -> bool {
        self.manifest.resume_args.is_some()
    }

    fn prepare(&self, request: &SessionRequest) -> Result<Prepared, HarnessError> {
        if request.resume.is_some() && !self.can_resume() {
            let what = "resume an earlier session: its manifest has no `resume_args`".to_owned();
            return Err(HarnessError::Unsupported { harness: self.name.clone(), what });
        }
        self.prepare_with(request).map_err(|message| HarnessError::Template { harness: self.name.clone(), message })
    }

    fn session_file(&self, request: &SessionRequest, harness_session: Option<&str>) -> Option<SessionFile> {
        let template = self.session_file.as_ref()?;
        let id = session_file::as_name(harness_session.or(request.resume.as_deref()));
        let request = SessionRequest { resume: Some(id.to_owned()), ..request.clone() };
        let pattern = template.fill(&self.values(Some(&request), "", &self.config)).ok().flatten()?;
        let one_document = self.manifest.session_file.as_ref().is_some_and(|spec| spec.one_document);
        Some(SessionFile { pattern, one_document })
    }

    fn login_files(&self, home: &Path) -> Vec<PathBuf> {
        self.manifest.credentials.iter().map(|name| home.join(name)).collect()
    }

    fn detailed_reader(&self) -> Box<dyn OutputReader> {
        if let Some(readers) = &self.readers {
            return readers.reader();
        }
        let output: Box<dyn OutputReader> = match &self.manifest.output {
            OutputSpec::Text => Box::new(TextReader::default()),
            OutputSpec::JsonLines(spec) => Box::new(JsonLinesReader::detailed(spec, Which::All)),
        };
        match &self.manifest.session_file {
            Some(spec) => Box::new(WithSessionFile::detailed(output, spec)),
            None => output,
        }
    }

    fn reader(&self) -> Box<dyn OutputReader> {
        if let Some(readers) = &self.readers {
            return readers.reader();
        }
        let output: Box<dyn OutputReader> = match &self.manifest.output {
            OutputSpec::Text => Box::new(TextReader::default()),
            OutputSpec::JsonLines(spec) => Box::new(JsonLinesReader::new(spec)),
        };
        match &self.manifest.session_file {
            Some(spec) => Box::new(WithSessionFile::new(output, spec)),
            None => output,
        }
    }
}

/// Turns a manifest's texts into templates.
struct Loader<'a> {
    entry: &'a HarnessEntry,
    names: Vec<&'a str>,
}

impl Loader<'_> {
    fn template(&self, text: &str) -> Result<Template, String> {
        let template = Template::parse(text, Names { config: &self.names })?;
        let lists = self.names.iter().filter(|name| self.is_list(name)).map(|name| format!("config.{name}"));
        let list = ["resume_args".to_owned(), "cost_args".to_owned()].into_iter().chain(lists);
        match list.into_iter().find(|name| template.uses(name)) {
            Some(name) => {
                Err(format!("`{{{name}}}` is a list: it must be an argument of its own, not a part of `{text}`"))
            }
            None => Ok(template),
        }
    }

    fn is_list(&self, setting: &str) -> bool {
        self.entry.manifest.config.get(setting).is_some_and(|field| field.kind == ConfigKind::TextList)
    }

    fn arguments(&self, texts: &[String]) -> Result<Vec<Argument>, String> {
        texts.iter().map(|text| self.argument(text)).collect()
    }

    fn argument(&self, text: &str) -> Result<Argument, String> {
        let template = Template::parse(text, Names { config: &self.names })?;
        match template.alone() {
            Some("resume_args") => Ok(Argument::Resume),
            Some("cost_args") => Ok(Argument::Cost),
            Some(name) => match name.strip_prefix("config.").filter(|setting| self.is_list(setting)) {
                Some(setting) => self.setting(setting).map(Argument::Many),
                None => Ok(Argument::One(template)),
            },
            None => self.template(text).map(Argument::One),
        }
    }

    /// Reads the items of a list setting as templates: whoever writes the run file writes them.
    fn setting(&self, name: &str) -> Result<Vec<Template>, String> {
        let items = self.entry.config.get(name).and_then(serde_json::Value::as_array);
        let texts = items.into_iter().flatten().filter_map(serde_json::Value::as_str);
        texts.map(|text| self.template(text).map_err(|message| format!("`config.{name}`: {message}"))).collect()
    }

    fn env(&self) -> Result<Vec<(String, Template)>, String> {
        let env = &self.entry.manifest.env;
        env.iter().map(|(name, text)| Ok((name.clone(), self.template(text)?))).collect()
    }

    fn session_file(&self) -> Result<Option<Template>, String> {
        self.entry.manifest.session_file.as_ref().map(|spec| self.template(&spec.path)).transpose()
    }

    fn files(&self) -> Result<Vec<(Template, Template)>, String> {
        let files = &self.entry.manifest.files;
        files.iter().map(|(path, content)| Ok((self.template(path)?, self.template(content)?))).collect()
    }
}

#[cfg(test)]
mod tests;
