//! A trajectory for people.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::redact::printable;
use crate::report::atif::{Metrics, ObservationResult, Step, StepSource, Trajectory};

/// Lines of a tool's output, and of thoughts, that are shown.
const LINES: usize = 6;

/// Characters of a line of either, and of a call with its arguments.
const WIDTH: usize = 160;

/// What stands before all lines but the first of a step.
const INDENT: &str = "              ";

/// Shows a trajectory.
pub(in super::super) fn shown(trajectory: &Trajectory) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let model = trajectory.agent.model_name.as_deref().unwrap_or("unknown model");
    let _ = writeln!(out, "{}\n  {}, {model}", printable(&trajectory.trajectory_id), printable(&trajectory.agent.name));
    for step in &trajectory.steps {
        show_step(&mut out, step);
    }
    for note in trajectory.notes.iter().flat_map(|notes| notes.lines()) {
        let _ = writeln!(out, "      note: {}", printable(note));
    }
    // Blank lines, and steps without a word, end in no spaces.
    let lines: Vec<_> = out.lines().map(str::trim_end).collect();
    lines.join("\n") + "\n"
}

fn show_step(out: &mut String, step: &Step) {
    let who = match step.source {
        StepSource::System => "notice",
        StepSource::User => "prompt",
        StepSource::Agent => "agent",
    };
    let message = printable(step.message.trim_end()).replace('\n', &format!("\n{INDENT}"));
    let _ = writeln!(out, "{:>4}  {who:<6}  {message}", step.step_id);
    if let Some(thoughts) = &step.reasoning_content {
        show_lines(out, "thinks: ", thoughts);
    }
    let results = || step.observation.iter().flat_map(|observation| &observation.results);
    for call in &step.tool_calls {
        let result = results().find(|result| result.source_call_id == call.tool_call_id);
        let end = result.map(|result| ended(&result.extra)).unwrap_or_default();
        let line = format!("{} {}", call.function_name, arguments(&call.arguments));
        let line = cut(&printable(line.trim_end()).replace('\n', " ⏎ "));
        let _ = writeln!(out, "{INDENT}→ {}{end}", line.trim_end());
        show_output(out, result);
    }
    if let Some(metrics) = &step.metrics {
        let _ = writeln!(out, "{INDENT}[{}]", figures(metrics));
    }
}

/// A call's arguments: a single one as it is, several with their names.
fn arguments(given: &Map<String, Value>) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match given.len() {
        1 => given.values().map(text).collect(),
        _ => given.iter().map(|(name, value)| format!("{name}={}", text(value))).collect::<Vec<_>>().join(" "),
    }
}

fn show_output(out: &mut String, result: Option<&ObservationResult>) {
    let content = result.and_then(|result| result.content.as_deref());
    if let Some(text) = content.filter(|text| !text.trim().is_empty()) {
        show_lines(out, "  ", text);
    }
}

/// Shows the first lines of a text, and how many there are more.
fn show_lines(out: &mut String, head: &str, text: &str) {
    let safe = printable(text.trim_end());
    let lines: Vec<_> = safe.lines().collect();
    for (at, line) in lines.iter().take(LINES).enumerate() {
        let before = if at == 0 { head.to_owned() } else { " ".repeat(head.len()) };
        let _ = writeln!(out, "{INDENT}{before}{}", cut(line));
    }
    if lines.len() > LINES {
        let _ = writeln!(out, "{INDENT}{}… {} more lines", " ".repeat(head.len()), lines.len() - LINES);
    }
}

fn cut(line: &str) -> String {
    if line.chars().count() <= WIDTH {
        line.to_owned()
    } else {
        line.chars().take(WIDTH - 1).collect::<String>() + "…"
    }
}

fn figures(metrics: &Metrics) -> String {
    let count = |name: &str, count: Option<u64>| count.map(|count| format!("{name} {count}"));
    let cached = metrics.cached_tokens.map(|cached| format!("cached {cached}"));
    let cost = metrics.cost_usd.map(|cost| format!("${cost:.4}"));
    let prompt = count("in", metrics.prompt_tokens);
    let parts = [prompt, cached, count("out", metrics.completion_tokens), cost];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn ended(extra: &Map<String, Value>) -> String {
    let ok = extra.get("ok").and_then(Value::as_bool).map(|ok| if ok { "ok" } else { "failed" });
    let time = extra.get("duration_ms").and_then(Value::as_u64).map(|time| format!("{time} ms"));
    let parts: Vec<_> = ok.map(str::to_owned).into_iter().chain(time).collect();
    if parts.is_empty() { String::new() } else { format!("  ({})", parts.join(", ")) }
}
