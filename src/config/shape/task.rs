//! The task file.

use super::{Kind, Section, optional, required};

/// `tasks/*.yaml`.
pub(crate) const LIBRARY: Section = Section {
    name: "task file",
    fields: &[
        optional("version", Kind::Whole { min: 1, max: 1 }, "Version of this format."),
        required("tasks", Kind::List { of: &Kind::Section(&TASK), empty: true }, "The tasks."),
    ],
};

/// One task; also the whole of a `task.yaml`.
pub(crate) const TASK: Section = Section {
    name: "task",
    fields: &[
        required("id", Kind::Line, "Unique in the library."),
        optional("name", Kind::Text, "For people (the id)."),
        optional("track", Kind::Choice(&["swe", "open_ended", "multi_phase"]), "What kind of task it is (`swe`)."),
        optional("difficulty", Kind::Line, "For people and reports."),
        optional("description", Kind::Text, "For people."),
        optional(
            "repo_url",
            Kind::Line,
            "What the workspace starts from: a URL, a git directory or a plain directory (`repo` beside a `task.yaml`, else empty).",
        ),
        optional(
            "workspace",
            Kind::Line,
            "In place of `repo_url`: a folder of the image that the workspace starts from and stands in for, such as `image:/testbed`.",
        ),
        optional("repo_commit", Kind::Line, "The commit of it (its HEAD)."),
        optional("mutation", Kind::Text, "A patch, or the path of one, applied on top: the defect to find."),
        optional("setup_script", Kind::Text, "Shell script run before the first session."),
        optional("task_prompt", Kind::Text, "What the agent is told."),
        optional("checks", TEXTS, "Shell commands that the agent may see and a script may run."),
        optional("test_command", Kind::Text, "Shell command that runs the tests."),
        optional("test_patch", Kind::Text, "Hidden tests: a patch, or the path of one."),
        optional(
            "tests",
            Kind::Path,
            "Hidden tests: a folder laid over the final tree (`tests` beside a `task.yaml`).",
        ),
        optional("fail_to_pass", TEXTS, "Ids of tests that fail before and must pass after."),
        optional("pass_to_pass", TEXTS, "Ids of tests that pass before and must still pass."),
        optional("expected_files", Kind::List { of: &Kind::Inside, empty: true }, "Files that must exist in the end."),
        optional(
            "rubric",
            Kind::Either(&Kind::Text, &Kind::ListOr(&CRITERIA, &Kind::Section(&RUBRIC))),
            "What a judge scores open work by: a question, a list of criteria, or both with their settings.",
        ),
        optional("timeout_seconds", Kind::Duration, "Limit of the attempt, setup and evaluation apart (600)."),
        optional("multi_session", Kind::Bool, "Whether more than one session makes sense (true)."),
        optional("evaluate", Kind::Choice(&["fresh", "same"]), "In which environment the tests run (`fresh`)."),
        optional("metadata", Kind::Map(&Kind::Any), "Free."),
        optional(
            "phases",
            Kind::List { of: &Kind::Section(&PHASE), empty: true },
            "The phases of a `multi_phase` task.",
        ),
    ],
};

/// The `example.yaml` of work that people have scored.
pub(crate) const EXAMPLE: Section = Section {
    name: "example",
    fields: &[
        required("task", Kind::Line, "Id of the task that the work was done on."),
        required("scores", Kind::Map(&Kind::Any), "Points by the names of the rubric's criteria, as people gave them."),
        optional("diff", Kind::Text, "The work: a diff, or the path of one (`candidate.diff`)."),
        optional("checked", TEXTS, "What a run would have checked without the judge, a line for each."),
    ],
};

/// `rubric` in its long form.
pub(crate) const RUBRIC: Section = Section {
    name: "rubric",
    fields: &[
        optional("version", Kind::Whole { min: 1, max: 1_000_000 }, "Its version, for people (1)."),
        required("criteria", CRITERIA, "What is scored."),
        optional(
            "pass_score",
            Kind::Positive { max: 1.0 },
            "The least score, from 0 to 1, that solves the task (0.5).",
        ),
        optional(
            "files",
            Kind::List { of: &Kind::Inside, empty: true },
            "Files of the final tree that the judge is shown whole, beside the diff.",
        ),
    ],
};

const CRITERIA: Kind = Kind::List { of: &Kind::Section(&CRITERION), empty: false };

/// `rubric.criteria[]`.
const CRITERION: Section = Section {
    name: "criterion",
    fields: &[
        optional("name", Kind::Name, "Unique in the rubric (made from the question)."),
        optional("question", Kind::Text, "What is asked of the work."),
        optional("criterion", Kind::Text, "The same as `question`."),
        optional("weight", Kind::Positive { max: 1_000_000.0 }, "What it counts, beside the others (1)."),
        optional("points", Kind::Whole { min: 1, max: 100 }, "The most points; the least is 0 (10)."),
        optional("anchors", Kind::Map(&Kind::Text), "What single numbers of points look like: `0: …`, `10: …`."),
    ],
};

const TEXTS: Kind = Kind::List { of: &Kind::Text, empty: true };

/// `phases[]`.
pub(crate) const PHASE: Section = Section {
    name: "phase",
    fields: &[
        required("name", Kind::Name, "Unique in the task."),
        optional("model_role", Kind::Choice(&["implementation", "review"]), "Which model runs it (`implementation`)."),
        optional("task_prompt", Kind::Text, "Its prompt (the task's)."),
        optional("input", Kind::Choice(&["none", "diff", "output", "review_feedback"]), "What it is given (`none`)."),
        optional("timeout_seconds", Kind::Duration, "Its own limit, within the task's."),
    ],
};
