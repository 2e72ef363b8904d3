//! From a run file to a [`RunPlan`]: parse, check, resolve, expand.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::domain::{Cell, Params, RunName, Task, Track};

use super::catalog::Catalog;
use super::cell_key::KeyCache;
use super::diagnostic::{ConfigError, Diagnostic, Diagnostics, Warnings};
use super::document::Node;
use super::fields::absolute;
use super::matrix::{self, Axes};
use super::plan::{OrchestratorEntry, RunPlan};
use super::run_file::{self, NamedOrchestrator};
use super::shape::{check, run};
use super::source::{Source, Span, normalize};
use super::task_library::TaskLibrary;
use super::{gateway, judge, nearest, overrides, params, yaml};

/// What to load, and what the command line changes about it.
#[derive(Debug, Clone, Default)]
pub struct LoadOptions {
    /// The run file.
    pub path: PathBuf,
    /// `key=value` each: changes of the document (`limits.sessions=3`, `models.0.role=review`).
    pub set: Vec<String>,
    /// `key=value` or `label.key=value` each: parameters of orchestrators.
    pub params: Vec<String>,
    /// Folders of orchestrators, searched before the built-in ones.
    pub orchestrator_dirs: Vec<PathBuf>,
    /// Names of harnesses that the host brings; the host fills them in where it loads the file.
    pub host_harnesses: Vec<String>,
    /// Patterns of cell ids; a cell stays if one of them matches. None keeps all.
    pub only: Vec<String>,
}

impl LoadOptions {
    /// Loads a run file as it is.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), ..Self::default() }
    }
}

/// Loads a run file: every name resolved, every default filled in, every cell enumerated.
///
/// # Errors
///
/// A [`ConfigError`] with everything that is wrong with the file, the task library and the manifests it names.
pub fn load(options: LoadOptions) -> Result<(RunPlan, Warnings), ConfigError> {
    let source = Source::read(&options.path)?;
    let file = absolute(&options.path);
    let project = project_of(&options.path);
    plan(&Request { source, file, project, options, no_mutation: false })
}

/// The folder that a run file's relative defaults start from: a `runs` folder lies in its project.
fn project_of(path: &Path) -> PathBuf {
    let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
    let is_runs = absolute(&folder).file_name().is_some_and(|name| name == "runs");
    if is_runs { normalize(&folder.join("..")) } else { folder }
}

/// A document with what is needed to make a plan of it.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) source: Arc<Source>,
    pub(crate) file: PathBuf,
    pub(crate) project: PathBuf,
    pub(crate) options: LoadOptions,
    pub(crate) no_mutation: bool,
}

/// Makes a plan.
pub(crate) fn plan(request: &Request) -> Result<(RunPlan, Warnings), ConfigError> {
    let mut root = yaml::parse(&request.source)?;
    let mut out = Diagnostics::default();
    for argument in &request.options.set {
        if let Err(problem) = overrides::apply(&mut root, argument) {
            out.push(problem);
        }
    }
    let whole = Span::new(&request.source, 0..request.source.text().len());
    check::section(&root, &run::RUN, &whole, &mut out);
    let mut catalog = match Catalog::load(&request.options.orchestrator_dirs) {
        Ok(catalog) => catalog,
        Err(error) => {
            out.extend(error.diagnostics().iter().cloned());
            return Err(out.finish().err().unwrap_or(error));
        }
    };
    catalog.add_host_harnesses(&request.options.host_harnesses);
    let harnesses = run_file::harnesses(&root, &catalog, &mut out);
    let models = run_file::models(&root, &mut out);
    let named = run_file::orchestrators(&root, &catalog, &mut out);
    let tasks = tasks(request, &root, &mut out);
    let runtime = root.text_of("runtime").unwrap_or_else(|| "docker".to_owned());
    without_images(&runtime, &tasks, &mut out);
    let explicit = named.is_some();
    let named = named.unwrap_or_else(|| defaults(&tasks, &catalog, &whole));
    let spans: Vec<Span> = named.iter().map(|entry| entry.span.clone()).collect();
    let mut orchestrators = with_params(named, &request.options.params, &mut out);
    add_phases(&mut orchestrators, &tasks, &catalog);
    let limits = run_file::limits(&root, &mut out);
    let (gateway, providers) = (gateway::gateway(&root, &mut out), gateway::providers(&root, &mut out));
    gateway::check_routes((&gateway, &providers), (&harnesses, &models), &root, &mut out);
    let judge = judge::judge(&root, &providers, &tasks, &mut out);
    let repeats = root.whole_of("repeats").unwrap_or(5);
    let models_span = root.entry("models").map_or(&whole, |entry| &entry.key_span);
    let complete = !out.has_errors();
    let axes = Axes {
        harnesses: &harnesses,
        models: &models,
        models_span,
        tasks: &tasks,
        orchestrators: &orchestrators,
        orchestrator_spans: &spans,
        explicit,
        // With errors elsewhere only the pairing is of interest, not a hundred thousand cells.
        repeats: if complete { repeats } else { 1 },
    };
    let cells = only(matrix::expand(&axes, &mut out), &request.options.only, &mut out);
    let name = root.text_of("name").and_then(|name| RunName::new(name).ok());
    let warnings = out.finish()?;
    let Some(name) = name else {
        return Err(Diagnostic::error("the run file has no `name`").in_file(request.source.shown()).into());
    };
    let tasks: Vec<Arc<Task>> = tasks.into_iter().map(|(task, _)| task).collect();
    let plan = RunPlan {
        keys: KeyCache::sized(harnesses.len(), models.len(), tasks.len(), orchestrators.len()),
        name,
        description: root.text_of("description"),
        source: request.file.clone(),
        repeats,
        budget: root.money_of("budget_usd"),
        allow_unpriced: root.bool_of("allow_unpriced").unwrap_or(false),
        prices: root.paths_of("prices"),
        parallel_runs: root.whole_of("parallel_runs").unwrap_or(1),
        runtime,
        container: run_file::container(&root),
        limits,
        retry: run_file::retry(&root),
        gateway,
        judge,
        providers,
        max_runtime: root.duration_of("max_runtime_seconds"),
        results_db: root.path_of("results_db").unwrap_or_else(|| absolute(&request.project.join("refrain.db"))),
        state_dir: root.path_of("workdir").unwrap_or_else(|| absolute(&request.project.join(".refrain"))),
        config_json: root.to_json(),
        harnesses,
        models,
        tasks,
        orchestrators,
        cells,
    };
    Ok((plan, warnings))
}

/// Refuses tasks that live in an image where nothing is made from an image.
fn without_images(runtime: &str, tasks: &[(Arc<Task>, Span)], out: &mut Diagnostics) {
    if runtime != "local" {
        return;
    }
    for (task, span) in tasks {
        if let Some(folder) = task.seed.image_folder() {
            out.push(
                Diagnostic::error(format!(
                    "task `{}` works in a folder of an image, and `runtime: local` has no images",
                    task.id
                ))
                .at(span, format!("its workspace is `image:{}`", folder.display()))
                .hint("set `runtime: docker` and `docker_image`, or leave the task out"),
            );
        }
    }
}

/// Reads the library and selects the run's tasks.
fn tasks(request: &Request, root: &Node, out: &mut Diagnostics) -> Vec<(Arc<Task>, Span)> {
    let dir = match root.get("task_library_path") {
        Some(node) => match node.text() {
            Some(path) => normalize(&node.span.source.base().join(path)),
            None => return Vec::new(),
        },
        None => request.project.join("tasks"),
    };
    let library = match TaskLibrary::load(&dir) {
        Ok(library) => library,
        Err(error) => {
            let named = root.get("task_library_path").filter(|_| !dir.is_dir());
            out.extend(error.diagnostics().iter().map(|problem| match named {
                Some(node) => problem.clone().at(&node.span, "named here"),
                None => problem.clone(),
            }));
            return Vec::new();
        }
    };
    out.extend(library.warnings().iter().cloned());
    let Some(listed) = root.get("tasks") else { return Vec::new() };
    let wanted: Vec<&Node> = if listed.text().is_some() { vec![listed] } else { listed.items().iter().collect() };
    let mut selected: Vec<(Arc<Task>, Span)> = Vec::new();
    for node in wanted {
        let Some(id) = node.text() else { continue };
        if id == "*" {
            let all: Vec<&str> = library.ids().collect();
            for id in all {
                add(&library, id, &mut selected, out);
            }
        } else if !add(&library, id, &mut selected, out) {
            out.push(library.unknown(id).at(&node.span, "unknown task"));
        }
    }
    if request.no_mutation {
        for (task, _) in &mut selected {
            Arc::make_mut(task).mutation = None;
        }
    }
    selected
}

/// Selects a task once; a task that is listed twice, or listed beside `*`, runs once.
fn add(library: &TaskLibrary, id: &str, selected: &mut Vec<(Arc<Task>, Span)>, out: &mut Diagnostics) -> bool {
    if selected.iter().any(|(task, _)| task.id == id) {
        return true;
    }
    let found = library.select(id, out);
    let known = found.is_some();
    selected.extend(found);
    known
}

/// The tracks' own orchestrators, as far as there are tasks for them.
fn defaults(tasks: &[(Arc<Task>, Span)], catalog: &Catalog, whole: &Span) -> Vec<NamedOrchestrator> {
    let mut slugs: Vec<&str> = tasks.iter().map(|(task, _)| task.track.default_orchestrator()).collect();
    slugs.sort_unstable();
    slugs.dedup();
    let named = slugs.into_iter().filter_map(|slug| catalog.find_orchestrator(slug));
    named
        .map(|manifest| NamedOrchestrator { label: manifest.slug.clone(), manifest, params: None, span: whole.clone() })
        .collect()
}

/// Adds `phases` where the run lists `one-shot`, which stands for each track's own, and has tasks with phases.
fn add_phases(orchestrators: &mut Vec<OrchestratorEntry>, tasks: &[(Arc<Task>, Span)], catalog: &Catalog) {
    let wanted = tasks.iter().any(|(task, _)| task.track == Track::MultiPhase)
        && orchestrators.iter().any(OrchestratorEntry::stands_for_default)
        && !orchestrators.iter().any(|entry| entry.is_default_of(Track::MultiPhase));
    if !wanted {
        return;
    }
    let slug = Track::MultiPhase.default_orchestrator();
    let builtin = catalog.orchestrators().iter().rev().find(|manifest| manifest.slug == slug);
    orchestrators.extend(builtin.map(|manifest| OrchestratorEntry {
        label: slug.to_owned(),
        manifest: Arc::clone(manifest),
        params: params::complete(&manifest.params, Params::new()).unwrap_or_default(),
    }));
}

/// Checks and completes parameters: defaults, then the run's, then the command line's.
fn with_params(named: Vec<NamedOrchestrator>, flags: &[String], out: &mut Diagnostics) -> Vec<OrchestratorEntry> {
    let mut given: Vec<Params> = Vec::new();
    for entry in &named {
        let before = out.count();
        let params = entry.params.as_ref().map(|table| params::given(&entry.label, &entry.manifest.params, table, out));
        given.push(params.unwrap_or_default());
        let missing = |name: &str| {
            let by_flag = flags.iter().any(|flag| flag_key(flag).1 == name);
            !by_flag && !given.last().is_some_and(|params| params.contains_key(name))
        };
        for (name, spec) in entry.manifest.params.iter().filter(|(_, spec)| spec.default.is_none()) {
            if out.count() == before && missing(name) {
                let error = Diagnostic::error(format!("orchestrator `{}` needs parameter `{name}`", entry.label))
                    .at(&entry.span, "given neither here nor by `--param`");
                out.push(match &spec.help {
                    Some(help) => error.hint(help.clone()),
                    None => error.hint(format!("add `params: {{{name}: …}}`")),
                });
            }
        }
    }
    for flag in flags {
        param_flag(flag, &named, &mut given, out);
    }
    let complete = |(entry, given): (NamedOrchestrator, Params)| OrchestratorEntry {
        params: params::complete(&entry.manifest.params, given.clone()).unwrap_or(given),
        label: entry.label,
        manifest: entry.manifest,
    };
    named.into_iter().zip(given).map(complete).collect()
}

/// Splits `label.key` of a flag; parameters have no dots in their names, labels may.
fn flag_key(flag: &str) -> (Option<&str>, &str) {
    let key = flag.split('=').next().unwrap_or(flag);
    match key.rsplit_once('.') {
        Some((label, key)) => (Some(label), key),
        None => (None, key),
    }
}

fn param_flag(flag: &str, named: &[NamedOrchestrator], given: &mut [Params], out: &mut Diagnostics) {
    let source = Source::flag("--param", flag);
    let at = match overrides::split(&source, "--param") {
        Ok((_, at)) => at,
        Err(problem) => return out.push(problem),
    };
    let (label, key) = flag_key(flag);
    let place = Span::new(&source, 0..at - 1);
    let mut used = false;
    for (entry, given) in named.iter().zip(given) {
        let Some(spec) = entry.manifest.params.get(key).filter(|_| label.is_none_or(|label| label == entry.label))
        else {
            continue;
        };
        used = true;
        let value = params::from_text(spec, &source, at);
        let item = super::document::Entry { key: key.to_owned(), key_span: place.clone(), value };
        let table = Node::new(super::document::Value::Map(vec![item]), &source, 0..flag.len());
        given.extend(params::given(&entry.label, &entry.manifest.params, &table, out));
    }
    if !used {
        let known: Vec<&str> = named
            .iter()
            .filter(|entry| label.is_none_or(|label| label == entry.label))
            .flat_map(|entry| entry.manifest.params.keys().map(String::as_str))
            .collect();
        let labels = || named.iter().map(|entry| entry.label.as_str());
        let (message, hint) = match label {
            Some(label) if !labels().any(|known| known == label) => {
                (format!("the run has no orchestrator `{label}`"), nearest::hint(label, labels().collect::<Vec<_>>()))
            }
            _ => (format!("no orchestrator of this run has a parameter `{key}`"), nearest::hint(key, known)),
        };
        out.push(Diagnostic::error(message).at(&place, "not used").hint(hint));
    }
}

/// Keeps the cells that the patterns match.
fn only(cells: Vec<Cell>, patterns: &[String], out: &mut Diagnostics) -> Vec<Cell> {
    if patterns.is_empty() || cells.is_empty() {
        return cells;
    }
    let mut builder = GlobSetBuilder::new();
    for pattern in patterns {
        match GlobBuilder::new(pattern).build() {
            Ok(glob) => drop(builder.add(glob)),
            Err(error) => out.push(
                Diagnostic::error(format!("`--only {pattern}` is no pattern: {}", error.kind()))
                    .hint("`*` stands for anything, `?` for one character, `{a,b}` for either"),
            ),
        }
    }
    let set = builder.build().unwrap_or_else(|_| GlobSet::empty());
    let total = cells.len();
    let first = cells.first().map(|cell| cell.id.to_string()).unwrap_or_default();
    let kept: Vec<_> = cells.into_iter().filter(|cell| set.is_match(cell.id.as_str())).collect();
    if kept.is_empty() && !out.has_errors() {
        out.push(
            Diagnostic::error(format!("`--only {}` matches none of the {total} cells", patterns.join(" --only ")))
                .hint(format!("a cell is called `{first}`; `*` stands for anything")),
        );
    }
    kept
}
