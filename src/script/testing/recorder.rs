//! What a test file's tests came to.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Listener, TestOptions, TestProgress, TestResult};
use crate::clock::{Clock, SystemClock};
use crate::script::bind::Coverage;
use crate::script::mock::MockWorld;
use crate::script::source::ScriptSource;

/// Collects results while a test file runs.
pub(crate) struct Recorder {
    /// The orchestrator's files.
    pub(super) source: ScriptSource,
    filter: Option<String>,
    /// Counts of lines, where they are wanted.
    pub(super) coverage: Option<Coverage>,
    clock: SystemClock,
    /// The world of the test file itself, which holds what the tests print.
    world: MockWorld,
    listener: Option<Listener>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    current: Option<Current>,
    results: Vec<TestResult>,
    /// How many lines of the world's log were seen.
    seen: usize,
}

#[derive(Debug)]
struct Current {
    name: String,
    began: Duration,
    output: Vec<String>,
    runs: u32,
}

/// The most lines of output that a result keeps.
const OUTPUT_LINES: usize = 200;

impl Recorder {
    pub(super) fn new(
        source: ScriptSource,
        options: &TestOptions,
        world: MockWorld,
        listener: Option<Listener>,
    ) -> Self {
        Self {
            source,
            filter: options.filter.clone(),
            coverage: options.coverage.then(Coverage::default),
            clock: SystemClock::new(),
            world,
            listener,
            state: Mutex::default(),
        }
    }

    /// Begins a test; answers false where the filter leaves it out.
    pub(super) fn begin(&self, name: String) -> bool {
        if self.filter.as_ref().is_some_and(|filter| !name.contains(filter.as_str())) {
            return false;
        }
        let mut state = self.lock();
        // What was printed between tests is no test's.
        state.seen += self.world.logs_since(state.seen).len();
        state.current = Some(Current { name, began: self.clock.elapsed(), output: Vec::new(), runs: 0 });
        true
    }

    /// Takes what a script logged in a run of the current test, and why it did not return, where it did not.
    pub(super) fn ran(&self, logs: &[(String, String)], ended: Option<String>) {
        let mut state = self.lock();
        self.take_printed(&mut state);
        let Some(current) = &mut state.current else { return };
        current.runs += 1;
        let run = current.runs;
        current.output.extend(logs.iter().map(|log| format!("[run {run}] {}", shown(log))));
        current.output.extend(ended.map(|reason| format!("[run {run}] {reason}")));
    }

    /// Ends the current test; `failure` is its message and place.
    pub(super) fn end(&self, failure: Option<(String, Option<String>)>) {
        let mut state = self.lock();
        self.take_printed(&mut state);
        let Some(Current { name, began, mut output, .. }) = state.current.take() else { return };
        let duration = self.clock.elapsed().saturating_sub(began);
        let ok = failure.is_none();
        let (message, place) = failure.map_or((None, None), |(message, place)| (Some(message), place));
        let cut = output.len().saturating_sub(OUTPUT_LINES);
        if cut > 0 {
            output.splice(..cut, [format!("… {cut} lines before these")]);
        }
        let result = TestResult { name, ok, message, place, output, duration };
        if let Some(listener) = &self.listener {
            listener(&TestProgress::Test(&result));
        }
        state.results.push(result);
    }

    /// Moves what the test printed since to its output.
    fn take_printed(&self, state: &mut State) {
        let new = self.world.logs_since(state.seen);
        state.seen += new.len();
        if let Some(current) = &mut state.current {
            current.output.extend(new.iter().map(shown));
        }
    }

    pub(super) fn finish(&self) -> (Vec<TestResult>, BTreeMap<String, BTreeMap<u32, u64>>) {
        let results = std::mem::take(&mut self.lock().results);
        (results, self.coverage.as_ref().map(Coverage::take).unwrap_or_default())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A line as people read it: `print` logs at the level `info`.
fn shown((level, text): &(String, String)) -> String {
    if level == "info" { text.clone() } else { format!("{level}: {text}") }
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("filter", &self.filter).finish_non_exhaustive()
    }
}
