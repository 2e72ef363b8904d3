//! One task: from its document to a checked [`Task`], but for the seed, which is looked for when a run selects it.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use crate::domain::model::ModelRole;
use crate::domain::task::{EvaluateIn, HiddenTests, Phase, PhaseInput, Seed, Task, Track};

use super::diagnostic::{Diagnostic, Diagnostics};
use super::document::Node;
use super::fields::absolute;
use super::rubric;
use super::shape::{check, task as shape};
use super::source::{MAX_BYTES, Span, shown_path};

/// The limit of a task that names none.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

/// Reads a task whose shape was checked. `folder` is given for a `task.yaml`, whose neighbours are its parts.
pub(crate) fn decode(node: &Node, folder: Option<&Path>, out: &mut Diagnostics) -> Task {
    let id = node.text_of("id").unwrap_or_default();
    let track = node.text_of("track").and_then(|name| Track::parse(&name)).unwrap_or_default();
    let timeout = node.duration_of("timeout_seconds").unwrap_or(DEFAULT_TIMEOUT);
    let phases: Vec<Phase> =
        node.get("phases").map(Node::items).unwrap_or_default().iter().map(|item| phase(item, timeout, out)).collect();
    let task = Task {
        name: node.text_of("name").unwrap_or_else(|| id.clone()),
        id,
        track,
        difficulty: node.text_of("difficulty"),
        description: node.text_of("description"),
        seed: Seed::Empty,
        mutation: text_or_file(node, "mutation", out),
        setup_script: node.text_of("setup_script"),
        prompt: node.text_of("task_prompt").unwrap_or_default(),
        checks: node.texts_of("checks"),
        test_command: node.text_of("test_command"),
        hidden: hidden(node, folder, out),
        fail_to_pass: node.texts_of("fail_to_pass"),
        pass_to_pass: node.texts_of("pass_to_pass"),
        expected_files: node.texts_of("expected_files"),
        rubric: node.get("rubric").and_then(|node| rubric::decode(node, out)),
        timeout,
        multi_session: node.bool_of("multi_session").unwrap_or(true),
        evaluate: node.text_of("evaluate").and_then(|name| EvaluateIn::parse(&name)).unwrap_or_default(),
        phases,
        metadata: node.object_of("metadata"),
        source: absolute(Path::new(node.span.source.shown())),
    };
    // What does not fit its shape was reported; to say that it is missing as well would only confuse.
    let mut shape = Diagnostics::default();
    check::section(node, &shape::TASK, &node.span, &mut shape);
    if !shape.has_errors() {
        meaning(node, &task, out);
    }
    task
}

fn phase(node: &Node, whole: Duration, out: &mut Diagnostics) -> Phase {
    let timeout = node.duration_of("timeout_seconds");
    if let (Some(own), Some(place)) = (timeout, node.get("timeout_seconds"))
        && own > whole
    {
        out.push(
            Diagnostic::warning(format!(
                "a phase may take {} s, but its task only {} s",
                own.as_secs_f64(),
                whole.as_secs_f64()
            ))
            .at(&place.span, "longer than the task's `timeout_seconds`"),
        );
    }
    Phase {
        name: node.text_of("name").unwrap_or_default(),
        model_role: node.text_of("model_role").and_then(|name| ModelRole::parse(&name)).unwrap_or_default(),
        task_prompt: node.text_of("task_prompt"),
        input: node.text_of("input").and_then(|name| PhaseInput::parse(&name)).unwrap_or_default(),
        timeout,
    }
}

/// Checks what one field alone does not show.
fn meaning(node: &Node, task: &Task, out: &mut Diagnostics) {
    let place = node.entry("id").map_or(&node.span, |entry| &entry.value.span);
    let all_phases_speak = !task.phases.is_empty() && task.phases.iter().all(|phase| phase.task_prompt.is_some());
    if task.prompt.trim().is_empty() && !all_phases_speak {
        out.push(
            Diagnostic::error(format!("task `{}` has no prompt", task.id))
                .at(place, "`task_prompt` is missing or empty")
                .hint("add `task_prompt`: what the agent is told"),
        );
    }
    match (task.track, node.entry("phases")) {
        (Track::MultiPhase, None) => out.push(
            Diagnostic::error(format!("task `{}` is `multi_phase` but has no phases", task.id))
                .at(place, "`phases` is missing")
                .hint("add `phases`, or choose another `track`"),
        ),
        (Track::MultiPhase, Some(entry)) if task.phases.is_empty() => {
            out.push(Diagnostic::error("`phases` is empty").at(&entry.key_span, "name at least one"));
        }
        (Track::Swe | Track::OpenEnded, Some(entry)) if !task.phases.is_empty() => out.push(
            Diagnostic::error(format!("task `{}` has phases, but its track is `{}`", task.id, task.track))
                .at(&entry.key_span, "phases without `multi_phase`")
                .hint("set `track: multi_phase`"),
        ),
        _ => {}
    }
    phase_names(node, out);
    if task.track != Track::OpenEnded && task.test_command.is_none() {
        out.push(
            Diagnostic::warning(format!("task `{}` has no `test_command`: nothing judges it", task.id))
                .at(place, "`test_command` is missing"),
        );
    }
    if let Some(both) = task.fail_to_pass.iter().find(|test| task.pass_to_pass.contains(test))
        && let Some(entry) = node.entry("pass_to_pass")
    {
        out.push(
            Diagnostic::error(format!("test `{both}` is both in `fail_to_pass` and in `pass_to_pass`"))
                .at(&entry.key_span, "one of them is wrong"),
        );
    }
}

fn phase_names(node: &Node, out: &mut Diagnostics) {
    let mut seen: Vec<(&str, &Span)> = Vec::new();
    for phase in node.get("phases").map(Node::items).unwrap_or_default() {
        let Some(entry) = phase.entry("name") else { continue };
        let Some(name) = entry.value.text() else { continue };
        match seen.iter().find(|(known, _)| *known == name) {
            Some((_, first)) => out.push(
                Diagnostic::error(format!("two phases are called `{name}`"))
                    .at(&entry.value.span, "again here")
                    .also(first, "first here"),
            ),
            None => seen.push((name, &entry.value.span)),
        }
    }
}

/// A text on several lines is meant as it is; a single line names a file.
pub(super) fn text_or_file(node: &Node, key: &str, out: &mut Diagnostics) -> Option<String> {
    let value = node.get(key)?;
    let text = value.text()?;
    if text.trim_end().contains('\n') || text.trim().is_empty() {
        return (!text.trim().is_empty()).then(|| text.to_owned());
    }
    let path = value.resolve(text.trim());
    let problem = match std::fs::metadata(&path) {
        Ok(metadata) if !metadata.is_file() => "it is not a file".to_owned(),
        Ok(metadata) if metadata.len() > MAX_BYTES => "it is larger than 4 MB".to_owned(),
        Ok(_) => match std::fs::read_to_string(&path) {
            Ok(content) => return Some(content),
            Err(error) => error.to_string(),
        },
        Err(error) => error.to_string(),
    };
    out.push(
        Diagnostic::error(format!("`{key}` names a file that cannot be read: {problem}"))
            .at(&value.span, "read as a path, because it is one line")
            .hint(format!(
                "paths start from the folder of `{}`; a patch itself goes into a `|` block",
                value.span.source.shown()
            )),
    );
    None
}

fn hidden(node: &Node, folder: Option<&Path>, out: &mut Diagnostics) -> HiddenTests {
    if let (Some(patch), Some(tests)) = (node.entry("test_patch"), node.entry("tests")) {
        out.push(
            Diagnostic::error("hidden tests are given twice")
                .at(&tests.key_span, "again here")
                .also(&patch.key_span, "first here")
                .hint("keep `test_patch` or `tests`"),
        );
    }
    if let Some(patch) = text_or_file(node, "test_patch", out) {
        return HiddenTests::Patch { patch };
    }
    if let Some(value) = node.get("tests")
        && let Some(path) = node.path_of("tests")
    {
        if !path.is_dir() {
            out.push(
                Diagnostic::error("`tests` must be a folder")
                    .at(&value.span, format!("`{}` is none", shown_path(&value.span.source.base().join(value.raw()))))
                    .hint("paths start from the folder of the file that names them"),
            );
        }
        return HiddenTests::Overlay { path };
    }
    match folder.map(|folder| absolute(&folder.join("tests"))).filter(|path| path.is_dir()) {
        Some(path) => HiddenTests::Overlay { path },
        None => HiddenTests::None,
    }
}

/// Where a task's files are looked for.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    /// The folder of the file that defines the task.
    pub(crate) own: PathBuf,
    /// The library's folder.
    pub(crate) library: PathBuf,
    /// Whether the task is a folder with a `task.yaml`.
    pub(crate) is_folder: bool,
}

/// Finds what a task's workspace starts from.
pub(crate) fn seed(node: &Node, places: &Places, out: &mut Diagnostics) -> Seed {
    let commit = node.text_of("repo_commit");
    if let Some(value) = node.get("workspace") {
        return in_image(node, value, out);
    }
    let Some(value) = node.get("repo_url") else {
        let own = places.own.join("repo");
        if places.is_folder && own.is_dir() {
            return from_folder(absolute(&own), commit, node, out);
        }
        if let Some(entry) = node.entry("repo_commit") {
            out.push(
                Diagnostic::error("`repo_commit` without `repo_url`")
                    .at(&entry.key_span, "a commit of what?")
                    .hint("add `repo_url`"),
            );
        }
        return Seed::Empty;
    };
    let Some(url) = value.text() else { return Seed::Empty };
    if is_url(url) {
        return Seed::Url { url: url.to_owned(), commit };
    }
    let tried = candidates(url, places);
    if let Some(path) = tried.iter().find(|path| path.is_dir()) {
        return from_folder(absolute(path), commit, node, out);
    }
    let list = tried.iter().map(|path| format!("`{}`", shown_path(path))).collect::<Vec<_>>().join(", ");
    out.push(
        Diagnostic::error(format!("`repo_url` names no folder: `{url}`"))
            .at(&value.span, "does not exist")
            .hint(format!("looked at {list}")),
    );
    Seed::Empty
}

/// Folders of every container that are the system's or Refrain's own.
const NOT_A_WORKSPACE: &[&str] =
    &["/", "/dev", "/etc", "/proc", "/refrain", "/run", "/sys", "/tmp", "/var/tmp", "/work", "/work-forks"];

fn in_image(node: &Node, value: &Node, out: &mut Diagnostics) -> Seed {
    for key in ["repo_url", "repo_commit"] {
        if let Some(entry) = node.entry(key) {
            out.push(
                Diagnostic::error(format!("`{key}` beside `workspace`"))
                    .at(&entry.key_span, "the workspace cannot start from two things")
                    .hint(format!("keep `workspace` or `{key}`")),
            );
        }
    }
    let Some(text) = value.text() else { return Seed::Empty };
    let path = text.strip_prefix("image:").map(Path::new);
    let is_plain =
        |path: &&Path| path.is_absolute() && path.components().skip(1).all(|part| matches!(part, Component::Normal(_)));
    let Some(path) = path.filter(is_plain) else {
        out.push(
            Diagnostic::error(format!("`workspace` names no folder of an image: `{text}`"))
                .at(&value.span, "not understood")
                .hint("write `image:` and an absolute path without `..`, such as `image:/testbed`"),
        );
        return Seed::Empty;
    };
    // Without a slash at the end.
    let path: PathBuf = path.components().collect();
    // `/` is no folder for a workspace, but what is in it is; with `/work` it is the other way round.
    let taken = |taken: &&&str| match **taken {
        "/" => path == Path::new("/"),
        "/work" => path != Path::new("/work") && path.starts_with("/work"),
        taken => path.starts_with(taken),
    };
    if let Some(taken) = NOT_A_WORKSPACE.iter().find(taken) {
        out.push(
            Diagnostic::error(format!("`workspace` may not be in `{taken}` of the image"))
                .at(&value.span, "belongs to every container")
                .hint("move the files to a folder of their own when the image is built, such as `/testbed`"),
        );
        return Seed::Empty;
    }
    Seed::Image { path }
}

fn from_folder(path: PathBuf, commit: Option<String>, node: &Node, out: &mut Diagnostics) -> Seed {
    let bare = path.join("HEAD").is_file() && path.join("objects").is_dir() && path.join("refs").is_dir();
    if bare || path.join(".git").exists() {
        return Seed::Git { path, commit };
    }
    if let Some(entry) = node.entry("repo_commit") {
        out.push(
            Diagnostic::warning("`repo_commit` is not used: `repo_url` is a plain folder")
                .at(&entry.key_span, "no git repository there"),
        );
    }
    Seed::Directory { path }
}

/// The paths that a relative `repo_url` may mean, in the order in which they are tried.
fn candidates(url: &str, places: &Places) -> Vec<PathBuf> {
    let path = Path::new(url.strip_prefix("file://").unwrap_or(url));
    if path.is_absolute() {
        return vec![path.to_path_buf()];
    }
    let mut tried = vec![places.own.join(path), places.library.join(path)];
    // Libraries of this kind write paths as seen from the folder that holds `tasks/`.
    if let Ok(rest) = path.strip_prefix("tasks") {
        tried.push(places.library.join(rest));
    } else if let Ok(rest) = path.strip_prefix("./tasks") {
        tried.push(places.library.join(rest));
    }
    tried.dedup();
    tried
}

fn is_url(text: &str) -> bool {
    if text.starts_with("file://") {
        return false;
    }
    let scheme = text
        .split_once("://")
        .is_some_and(|(scheme, _)| scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+'));
    // `git@host:path`, as ssh writes it.
    let scp = text.split_once(':').is_some_and(|(host, _)| host.contains('@') && !host.contains('/'));
    scheme || scp
}
