//! What a run file says of its judge.

use std::sync::Arc;
use std::time::Duration;

use crate::domain::failure::names;
use crate::domain::model::{AuthMode, CostMode, Model, ModelRole};
use crate::domain::{Micros, Task, Track};

use super::diagnostic::{Diagnostic, Diagnostics};
use super::document::Node;
use super::gateway::{ProviderEntry, base_url};
use super::nearest;
use super::plan::RunPlan;
use super::source::Span;

/// How a judge is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JudgeInterface {
    /// Anthropic's Messages.
    AnthropicMessages,
    /// `OpenAI`'s Chat Completions, which many providers speak.
    OpenAiChat,
    /// Gemini's `generateContent`.
    GeminiGenerate,
}

names!(JudgeInterface {
    AnthropicMessages => "anthropic_messages",
    OpenAiChat => "openai_chat",
    GeminiGenerate => "gemini_generate",
});

impl JudgeInterface {
    /// The names, for the run file.
    pub(crate) const NAMES: &'static [&'static str] = &["anthropic_messages", "openai_chat", "gemini_generate"];

    fn of_provider(provider: &str) -> Self {
        match provider {
            "anthropic" => Self::AnthropicMessages,
            "gemini" | "google" => Self::GeminiGenerate,
            _ => Self::OpenAiChat,
        }
    }
}

/// The judge of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgePlan {
    /// Its model, with provider, key and who pays.
    pub model: Model,
    /// How it is asked.
    pub interface: JudgeInterface,
    /// How many answers a score is the median of.
    pub samples: u32,
    /// Further tries at an answer that could not be used.
    pub retries: u32,
    /// Bound of one request.
    pub timeout: Duration,
    /// Most dollars for the judgement of one attempt.
    pub max_cost: Option<Micros>,
    /// Most tokens of an answer.
    pub max_tokens: u32,
    /// Most bytes that it is shown of the diff, and of each chosen file.
    pub evidence_bytes: usize,
    /// The least agreement with people that a calibration must have found.
    pub min_agreement: Option<f64>,
}

/// Reads `judge`, and says which rubrics nobody looks at.
pub(super) fn judge(
    root: &Node,
    providers: &[ProviderEntry],
    tasks: &[(Arc<Task>, Span)],
    out: &mut Diagnostics,
) -> Option<JudgePlan> {
    let Some(node) = root.get("judge").filter(|node| !node.entries().is_empty()) else {
        for (task, span) in tasks.iter().filter(|(task, _)| is_scored(task)) {
            out.push(
                Diagnostic::warning(format!("task `{}` has a rubric, but the run has no `judge`", task.id))
                    .at(span, "its structure alone decides")
                    .hint("add `judge` with a `model` and its `provider`"),
            );
        }
        return None;
    };
    if !cfg!(feature = "gateway") {
        out.push(
            Diagnostic::error("a judge is asked through the gateway, and this build of refrain has none")
                .at(&node.span, "cannot be asked")
                .hint("build with the feature `gateway`, or leave `judge` out"),
        );
        return None;
    }
    let (model, provider) = (node.get("model")?, node.get("provider")?);
    let name = provider.text()?;
    let place = node.get("base_url").and_then(|url| base_url(url, out));
    if node.get("base_url").is_none() && !providers.iter().any(|known| known.name == name) {
        out.push(
            Diagnostic::error(format!("the judge's provider `{name}` is not known"))
                .at(&provider.span, "where is it?")
                .hint(format!(
                    "add it to `providers`, or `base_url` to `judge`; {}",
                    nearest::hint(name, providers.iter().map(|known| known.name.as_str()))
                )),
        );
    }
    let config = place.map(|url| ("base_url".to_owned(), serde_json::Value::from(url)));
    Some(JudgePlan {
        model: Model {
            name: model.text()?.to_owned(),
            provider: name.to_owned(),
            api_key_env: node.text_of("api_key_env"),
            role: ModelRole::Review,
            cost_mode: node.text_of("cost_mode").and_then(|name| CostMode::parse(&name)).unwrap_or_default(),
            auth_mode: AuthMode::ApiKey,
            credentials_path: None,
            config: config.into_iter().collect(),
        },
        interface: node
            .text_of("interface")
            .and_then(|name| JudgeInterface::parse(&name))
            .unwrap_or_else(|| JudgeInterface::of_provider(name)),
        samples: node.whole_of("samples").unwrap_or(1),
        retries: node.whole_of("retries").unwrap_or(2),
        timeout: node.duration_of("timeout").unwrap_or(Duration::from_secs(300)),
        max_cost: node.money_of("max_cost"),
        max_tokens: node.whole_of("max_tokens").unwrap_or(8192),
        evidence_bytes: node.whole_of("evidence_bytes").unwrap_or(60_000),
        min_agreement: node.number_of("min_agreement"),
    })
}

/// Tells whether a judge is to score the work on a task.
fn is_scored(task: &Task) -> bool {
    task.track == Track::OpenEnded && task.rubric.is_some()
}

impl RunPlan {
    /// Returns the judge of the work on a task, where it has one.
    #[must_use]
    pub fn judge_of(&self, task: &Task) -> Option<&JudgePlan> {
        self.judge.as_ref().filter(|_| is_scored(task))
    }

    /// Tells whether a judge is asked about any task of the run.
    #[must_use]
    pub fn asks_a_judge(&self) -> bool {
        self.tasks.iter().any(|task| self.judge_of(task).is_some())
    }
}
