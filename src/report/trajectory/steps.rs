//! The steps of a trajectory, put together from what happened.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::super::atif::{Metrics, ObservationResult, Step, StepSource, ToolCall};
use super::{Happening, Known, NO_PROMPT, StepPrice, known_only, millis, prompt_tokens, without_blank_lines};
use crate::domain::{Micros, Usage};

/// The steps so far.
#[derive(Default)]
pub(super) struct Steps<'a> {
    pub(super) all: Vec<Step>,
    calls: usize,
    /// Calls whose end was not told.
    open: Vec<Open>,
    /// Whether what came last was a call whose command or file is not known yet.
    bare: bool,
    /// The call that came or ended last: its step and its id.
    current: Option<(usize, String)>,
    /// What the line at hand is part of, and the call that it tells next.
    request: Option<String>,
    next_call: Option<String>,
    /// The step of each request.
    requests: HashMap<String, usize>,
    /// How many steps there were when the line at hand began.
    before_line: usize,
    /// Thoughts that belong to the step that comes.
    thoughts: Vec<String>,
    figures: HashMap<usize, (Usage, Option<Micros>)>,
    /// What a request has used that no step is known of yet.
    waiting: Option<(Usage, Option<Micros>)>,
    price: Option<StepPrice<'a>>,
    tells_outputs: bool,
}

/// A call whose end was not told.
struct Open {
    name: String,
    /// The harness's own id of it.
    id: Option<String>,
    step: usize,
    call: String,
}

/// How a call ended, and how long it took.
type Told = (Option<bool>, Option<Duration>);

impl<'a> Steps<'a> {
    /// Begins with the prompt.
    pub(super) fn new(known: Known<'a>) -> Self {
        let mut steps = Self { price: known.price, ..Self::default() };
        steps.push(StepSource::User, known.prompt.unwrap_or(NO_PROMPT).to_owned());
        if let Some(step) = steps.all.last_mut() {
            step.timestamp = Some(known.record.started_at.to_string());
            if known.prompt.is_none() {
                step.extra.insert("prompt_stored".to_owned(), false.into());
            }
        }
        steps.before_line = steps.all.len();
        steps
    }

    fn push(&mut self, source: StepSource, message: String) {
        self.all.push(Step {
            step_id: self.all.len() + 1,
            timestamp: None,
            source,
            message,
            reasoning_content: None,
            tool_calls: Vec::new(),
            observation: None,
            metrics: None,
            extra: Map::new(),
        });
    }

    /// Tells whether the agent has said this, blank lines aside.
    pub(super) fn says(&self, text: &str) -> bool {
        let text = without_blank_lines(text);
        let mut said = self.all.iter().filter(|step| step.source == StepSource::Agent);
        text.is_empty() || said.any(|step| without_blank_lines(&step.message).contains(&text))
    }

    /// Begins a step of the agent, with what it thought before.
    pub(super) fn say(&mut self, text: String) {
        self.push(StepSource::Agent, text);
        let at = self.all.len() - 1;
        let thoughts = std::mem::take(&mut self.thoughts);
        self.all[at].reasoning_content = (!thoughts.is_empty()).then(|| thoughts.join("\n\n"));
        match &self.request {
            Some(request) => {
                self.requests.insert(request.clone(), at);
            }
            None => {
                if let Some((usage, cost)) = self.waiting.take() {
                    self.put_figures(at, usage, cost);
                }
            }
        }
    }

    /// The step of the request that the line at hand is part of.
    fn of_request(&self) -> Option<usize> {
        self.request.as_ref().and_then(|request| self.requests.get(request)).copied()
    }

    pub(super) fn take(&mut self, happening: Happening) {
        let detail = matches!(
            happening,
            Happening::Request(_)
                | Happening::CallId(_)
                | Happening::Input(_)
                | Happening::Output(_)
                | Happening::AllTold
                | Happening::LineEnd { .. }
        );
        let bare = if detail { self.bare } else { std::mem::take(&mut self.bare) };
        match happening {
            Happening::Message(text) => self.message(text),
            Happening::Notice(text) => self.push(StepSource::System, text),
            Happening::Thinking(text) => self.think(text),
            Happening::Call { name, ok, duration } => {
                self.call(name, Map::new(), (ok, duration));
                self.bare = true;
            }
            Happening::CallEnd { name, ok, duration } => self.call_end(&name, (ok, duration)),
            Happening::FileEdit(path) => self.detail(bare, ("file_edit", "path", path), None),
            Happening::Command { line, ok } => self.detail(bare, ("command", "command", line), ok),
            Happening::AllTold => {}
            Happening::Request(name) => self.request = Some(name),
            Happening::CallId(id) => self.next_call = Some(id),
            Happening::Input(value) => self.input(value),
            Happening::Output(text) => self.output(text),
            Happening::LineEnd { at, request, usage, cost } => {
                for step in &mut self.all[self.before_line..] {
                    step.timestamp = step.timestamp.take().or_else(|| at.map(|at| at.to_string()));
                }
                self.before_line = self.all.len();
                (self.request, self.next_call) = (None, None);
                self.count(request.as_deref(), usage, cost);
            }
        }
    }

    fn message(&mut self, text: String) {
        let Some(at) = self.of_request() else { return self.say(text) };
        let message = &mut self.all[at].message;
        if !message.is_empty() {
            message.push_str("\n\n");
        }
        message.push_str(&text);
    }

    fn think(&mut self, text: String) {
        let Some(at) = self.of_request() else { return self.thoughts.push(text) };
        let thoughts = &mut self.all[at].reasoning_content;
        *thoughts = Some(thoughts.take().map_or(text.clone(), |before| format!("{before}\n\n{text}")));
    }

    /// Adds a call to the step of its request. Where that is not told, to the agent's latest step, or to one of its own
    /// where another call of that step has ended: it was asked for later then.
    fn call(&mut self, name: String, arguments: Map<String, Value>, told: Told) {
        let goes_on = |step: &Step| step.source == StepSource::Agent && step.observation.is_none();
        let at = if let Some(at) = self.of_request() {
            at
        } else {
            if self.request.is_some() || !self.all.last().is_some_and(goes_on) {
                self.say(String::new());
            }
            self.all.len() - 1
        };
        self.calls += 1;
        let call = format!("call-{}", self.calls);
        self.all[at].tool_calls.push(ToolCall { tool_call_id: call.clone(), function_name: name.clone(), arguments });
        self.current = Some((at, call.clone()));
        let id = self.next_call.take();
        if told == (None, None) {
            self.open.push(Open { name, id, step: at, call });
        } else {
            self.result(at, call, told);
        }
    }

    fn call_end(&mut self, name: &str, told: Told) {
        let id = self.next_call.take();
        let by_id = id.is_some() && self.open.iter().any(|open| open.id == id);
        let at = self.open.iter().position(|open| if by_id { open.id == id } else { open.name == name });
        self.current = None;
        if let Some(open) = at.map(|at| self.open.remove(at)) {
            self.current = Some((open.step, open.call.clone()));
            self.result(open.step, open.call, told);
        }
    }

    /// Takes a command or a file: an argument of the call that the line before told, else a call of its own.
    fn detail(&mut self, bare: bool, (kind, argument, value): (&str, &str, String), ok: Option<bool>) {
        let Some((at, id)) = self.current.clone().filter(|_| bare) else {
            let arguments = Map::from_iter([(argument.to_owned(), value.into())]);
            return self.call(kind.to_owned(), arguments, (ok, None));
        };
        let Some(call) = self.all[at].tool_calls.iter_mut().find(|call| call.tool_call_id == id) else { return };
        if call.arguments.is_empty() {
            call.arguments.insert(argument.to_owned(), value.into());
        }
        if let Some(at) = self.open.iter().position(|open| ok.is_some() && open.call == id) {
            let open = self.open.remove(at);
            self.result(open.step, open.call, (ok, None));
        }
    }

    /// Takes what the latest call was given: an object, or a text that is one.
    fn input(&mut self, value: Value) {
        let Some((at, id)) = &self.current else { return };
        let Some(call) = self.all[*at].tool_calls.iter_mut().find(|call| call.tool_call_id == *id) else { return };
        let parsed = value.as_str().and_then(|text| serde_json::from_str(text).ok());
        match parsed.unwrap_or(value) {
            Value::Object(fields) => call.arguments = fields,
            Value::Null => {}
            other => {
                call.arguments.insert("input".to_owned(), other);
            }
        }
    }

    /// Takes what the latest call came to.
    fn output(&mut self, text: String) {
        let Some((at, id)) = self.current.clone() else { return };
        self.tells_outputs = true;
        let results = &mut self.all[at].observation.get_or_insert_default().results;
        match results.iter_mut().find(|result| result.source_call_id == id) {
            Some(result) => result.content = Some(text),
            None => results.push(ObservationResult { source_call_id: id, content: Some(text), extra: Map::new() }),
        }
    }

    fn result(&mut self, step: usize, source_call_id: String, (ok, duration): Told) {
        let extra = known_only([("ok", json!(ok)), ("duration_ms", json!(duration.map(millis)))]);
        let observation = self.all[step].observation.get_or_insert_default();
        observation.results.push(ObservationResult { source_call_id, content: None, extra });
    }

    /// Counts what a request has used, at its step: numbers that are told again replace the earlier ones.
    fn count(&mut self, request: Option<&str>, usage: Usage, cost: Option<Micros>) {
        if usage.is_unknown() && cost.is_none() {
            return;
        }
        let latest = || self.all.iter().rposition(|step| step.source == StepSource::Agent);
        let at = match request {
            Some(request) => self.requests.get(request).copied(),
            None => latest(),
        };
        let Some(at) = at else {
            self.waiting = Some((usage, cost));
            return;
        };
        let (usage, cost) = match self.figures.get(&at).copied() {
            None => (usage, cost),
            Some((before, paid)) if request.is_some() => (before.overlaid_by(usage), cost.or(paid)),
            Some((before, paid)) => (before.plus(usage), paid.zip(cost).map(|(paid, cost)| paid + cost)),
        };
        self.put_figures(at, usage, cost);
    }

    fn put_figures(&mut self, step: usize, usage: Usage, cost: Option<Micros>) {
        self.figures.insert(step, (usage, cost));
        let priced = self.price.and_then(|price| price.0(&usage));
        self.all[step].metrics = Some(metrics(&usage, priced, cost));
    }

    /// Ends with the thoughts that no word followed.
    pub(super) fn finish(&mut self) {
        if !self.thoughts.is_empty() {
            self.say(String::new());
        }
    }

    /// What a reader should know of what is not told.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.calls > 0 && !self.tells_outputs {
            notes.push(
                "of tool calls only the command or the file is known as an argument, and of results only whether and how \
                 fast they came"
                    .to_owned(),
            );
        }
        if self.calls > 0 && self.requests.is_empty() {
            notes.push("which calls one request to the model made is not told".to_owned());
        }
        notes
    }
}

fn metrics(usage: &Usage, priced: Option<Micros>, reported: Option<Micros>) -> Metrics {
    Metrics {
        prompt_tokens: prompt_tokens(usage),
        completion_tokens: usage.output,
        cached_tokens: usage.cache_read,
        cost_usd: priced.or(reported).map(Micros::dollars),
        extra: known_only([
            ("input_tokens", json!(usage.input)),
            ("cache_write_tokens", json!(usage.cache_write)),
            ("reasoning_tokens", json!(usage.reasoning)),
            ("reported_cost_usd", json!(reported.map(Micros::dollars))),
        ]),
    }
}
