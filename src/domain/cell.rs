//! Cells: the coordinates of the matrix, their ids, and what makes two cells the same work.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::name::{RunName, external};

/// The id of a cell, unique in its run: `{harness}__{model}__{task}__r{repeat}[__rev-{model}][__orch-{label}]`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CellId(String);

/// A fingerprint of what a cell means: task content, script, params, harness version, image, prompt. It holds a digest of
/// each [`KeyPart`], so that two keys can tell what has changed between them.
///
/// Two cells with one id and different keys are different work under one name; resume refuses to mix them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CellKey(String);

/// One try at a cell. Attempts count from 1 and are never reused.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AttemptId {
    /// The run.
    pub run: RunName,
    /// The cell.
    pub cell: CellId,
    /// Which try.
    pub number: u32,
}

/// One coordinate of the matrix. Indices point into the plan that made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// Its id.
    pub id: CellId,
    /// Index of the harness.
    pub harness: usize,
    /// Index of the implementation model.
    pub model: usize,
    /// Index of the review model, for tasks with a review phase.
    pub review_model: Option<usize>,
    /// Index of the task.
    pub task: usize,
    /// Index of the orchestrator.
    pub orchestrator: usize,
    /// Which repeat, from 1.
    pub repeat: u32,
}

impl CellId {
    /// Builds an id from the names of its coordinates; `label` is `None` for the track's default orchestrator.
    #[must_use]
    pub fn build(
        harness: &str,
        model: &str,
        task: &str,
        repeat: u32,
        review_model: Option<&str>,
        label: Option<&str>,
    ) -> Self {
        let mut id = format!("{harness}__{model}__{task}__r{repeat}");
        if let Some(review) = review_model {
            id.push_str("__rev-");
            id.push_str(review);
        }
        if let Some(label) = label {
            id.push_str("__orch-");
            id.push_str(label);
        }
        Self(id)
    }

    /// Takes an id as it is stored.
    #[must_use]
    pub fn from_stored(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the id of one phase of this cell.
    #[must_use]
    pub fn phase(&self, phase: &str) -> String {
        format!("{}__phase-{phase}", self.0)
    }

    /// Returns the id of one session of this cell.
    #[must_use]
    pub fn session(&self, number: u32) -> String {
        format!("{}__s{number}", self.0)
    }
}

/// A part of what a cell means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum KeyPart {
    /// The task's prompt and phases.
    Prompt,
    /// The task's files, mutation and setup script.
    Workspace,
    /// The task's visible checks.
    Checks,
    /// The task's hidden tests and how they count.
    Tests,
    /// Anything else of the task, such as its timeout.
    TaskSettings,
    /// The orchestrator's files.
    Orchestrator,
    /// The orchestrator's parameters.
    Params,
    /// The harness's manifest.
    Harness,
    /// The harness's version.
    HarnessVersion,
    /// The harness's settings.
    HarnessConfig,
    /// The image.
    Image,
    /// The implementation model.
    Model,
    /// The review model.
    ReviewModel,
}

impl KeyPart {
    /// All parts, in the order in which a change is told.
    pub const ALL: [Self; 13] = [
        Self::Prompt,
        Self::Workspace,
        Self::Checks,
        Self::Tests,
        Self::TaskSettings,
        Self::Orchestrator,
        Self::Params,
        Self::Harness,
        Self::HarnessVersion,
        Self::HarnessConfig,
        Self::Image,
        Self::Model,
        Self::ReviewModel,
    ];

    /// Returns the letter that stands before its digest in a key.
    #[must_use]
    pub fn letter(self) -> char {
        match self {
            Self::Prompt => 'p',
            Self::Workspace => 'w',
            Self::Checks => 'c',
            Self::Tests => 't',
            Self::TaskSettings => 's',
            Self::Orchestrator => 'o',
            Self::Params => 'a',
            Self::Harness => 'h',
            Self::HarnessVersion => 'v',
            Self::HarnessConfig => 'g',
            Self::Image => 'i',
            Self::Model => 'm',
            Self::ReviewModel => 'r',
        }
    }
}

/// Says what it is, for people: `the task's prompt`.
impl fmt::Display for KeyPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Prompt => "the task's prompt",
            Self::Workspace => "the task's files",
            Self::Checks => "the task's checks",
            Self::Tests => "the task's hidden tests",
            Self::TaskSettings => "the task's settings",
            Self::Orchestrator => "the orchestrator's script",
            Self::Params => "the orchestrator's parameters",
            Self::Harness => "the harness's manifest",
            Self::HarnessVersion => "the harness's version",
            Self::HarnessConfig => "the harness's settings",
            Self::Image => "the image",
            Self::Model => "the model",
            Self::ReviewModel => "the review model",
        })
    }
}

impl CellKey {
    /// Takes a key as it is stored.
    #[must_use]
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }

    /// Returns the key: a version, then a letter and a digest for each part.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the parts in which two keys differ. Empty for equal keys, and for keys that do not tell their parts.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<KeyPart> {
        let (Some(ours), Some(theirs)) = (self.parts(), other.parts()) else { return Vec::new() };
        let of = |parts: &[&str], part: KeyPart| {
            parts.iter().find_map(|text| text.strip_prefix(part.letter())).map(str::to_owned)
        };
        KeyPart::ALL.into_iter().filter(|part| of(&ours, *part) != of(&theirs, *part)).collect()
    }

    /// Splits a key of the version that tells its parts.
    fn parts(&self) -> Option<Vec<&str>> {
        let mut words = self.0.split(' ');
        (words.next() == Some("v2")).then(|| words.collect())
    }
}

impl AttemptId {
    /// Returns a name for folders and containers that no other attempt of any run has.
    #[must_use]
    pub fn external_name(&self) -> String {
        external(&format!("{}/{}/{}", self.run, self.cell, self.number), 48)
    }
}

impl fmt::Display for CellId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for CellKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/a{}", self.run, self.cell, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_name_only_what_is_not_the_default() {
        let plain = CellId::build("codex", "gpt-5", "fix", 2, None, None);
        assert_eq!(plain.as_str(), "codex__gpt-5__fix__r2");
        let full = CellId::build("codex", "gpt-5", "fix", 2, Some("opus"), Some("refine"));
        assert_eq!(full.as_str(), "codex__gpt-5__fix__r2__rev-opus__orch-refine");
        assert_eq!(full.session(3), "codex__gpt-5__fix__r2__rev-opus__orch-refine__s3");
    }

    #[test]
    fn external_names_carry_run_cell_and_attempt() {
        let id = |run: &str, cell: &str, number| AttemptId {
            run: RunName::new(run).expect("valid"),
            cell: CellId::from_stored(cell),
            number,
        };
        let all = [id("a", "x__r1", 1), id("a", "x__r1", 2), id("b", "x__r1", 1), id("a", "x/r1", 1)];
        let mut names: Vec<_> = all.iter().map(AttemptId::external_name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 4);
    }
}
