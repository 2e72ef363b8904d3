//! One cell without a run file: `run single TASK --harness H --model M`.

use std::path::PathBuf;

use super::diagnostic::{ConfigError, Warnings};
use super::load::{self, LoadOptions, Request};
use super::plan::RunPlan;
use super::source::Source;

/// What to run. `set` reaches everything else that a run file can say (`runtime=local`, `models.0.api_key_env=KEY`).
#[derive(Debug, Clone, Default)]
pub struct SingleOptions {
    /// Id of the task.
    pub task: String,
    /// A built-in harness, or the path of a folder with a `harness.toml`.
    pub harness: String,
    /// The model.
    pub model: String,
    /// The model of review phases; the same as `model` where none is named.
    pub review_model: Option<String>,
    /// Slug of an orchestrator, or the path of its folder; the track's own where none is named.
    pub orchestrator: Option<String>,
    /// Leaves out the task's `mutation`, to see whether the task is right without its defect.
    pub no_mutation: bool,
    /// The task library; `tasks` in the current folder where none is named.
    pub task_library: Option<PathBuf>,
    /// `key=value` each: changes of the run.
    pub set: Vec<String>,
    /// `key=value` each: parameters of the orchestrator.
    pub params: Vec<String>,
    /// Folders of orchestrators, searched before the built-in ones.
    pub orchestrator_dirs: Vec<PathBuf>,
}

/// Makes a plan of one cell; the run is called `single` unless `set` names it.
///
/// # Errors
///
/// As for [`super::load`]; places are shown in a run file made from the arguments, called `command line`.
pub fn single(options: SingleOptions) -> Result<(RunPlan, Warnings), ConfigError> {
    let source = Source::flag("command line", &document(&options));
    let request = Request {
        source,
        file: PathBuf::from("command line"),
        project: PathBuf::new(),
        no_mutation: options.no_mutation,
        options: LoadOptions {
            set: options.set,
            params: options.params,
            orchestrator_dirs: options.orchestrator_dirs,
            ..LoadOptions::default()
        },
    };
    load::plan(&request)
}

fn document(options: &SingleOptions) -> String {
    // A JSON string is a YAML string: whatever was typed arrives as text.
    let text = |value: &str| serde_json::Value::from(value).to_string();
    let is_path = |value: &str| value.contains('/') || value == ".";
    let name = options.harness.trim_end_matches('/').rsplit('/').next().unwrap_or(&options.harness);
    let adapter = if is_path(&options.harness) && !options.harness.starts_with(['.', '/']) {
        format!("./{}", options.harness)
    } else {
        options.harness.clone()
    };
    let review = options.review_model.as_ref().unwrap_or(&options.model);
    let mut lines = vec![
        "name: single".to_owned(),
        "repeats: 1".to_owned(),
        format!("tasks: [{}]", text(&options.task)),
        format!("harnesses: [{{name: {}, adapter: {}}}]", text(name), text(&adapter)),
        "models:".to_owned(),
        format!("  - {{name: {}}}", text(&options.model)),
    ];
    lines.push(format!("  - {{name: {}, role: review}}", text(review)));
    if let Some(orchestrator) = &options.orchestrator {
        let key = if is_path(orchestrator) { "dir" } else { "slug" };
        lines.push(format!("orchestrators: [{{{key}: {}}}]", text(orchestrator)));
    }
    if let Some(library) = &options.task_library {
        lines.push(format!("task_library_path: {}", text(&library.display().to_string())));
    }
    lines.push(String::new());
    lines.join("\n")
}
