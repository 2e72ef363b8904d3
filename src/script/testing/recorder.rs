//! What a test file's tests came to.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{TestOptions, TestResult};
use crate::clock::{Clock, SystemClock};
use crate::script::bind::Coverage;
use crate::script::source::ScriptSource;

/// Collects results while a test file runs.
#[derive(Debug)]
pub(crate) struct Recorder {
    /// The orchestrator's files.
    pub(super) source: ScriptSource,
    filter: Option<String>,
    /// Counts of lines, where they are wanted.
    pub(super) coverage: Option<Coverage>,
    clock: SystemClock,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    current: Option<(String, Duration)>,
    results: Vec<TestResult>,
}

impl Recorder {
    pub(super) fn new(source: ScriptSource, options: &TestOptions) -> Self {
        Self {
            source,
            filter: options.filter.clone(),
            coverage: options.coverage.then(Coverage::default),
            clock: SystemClock::new(),
            state: Mutex::default(),
        }
    }

    /// Begins a test; answers false where the filter leaves it out.
    pub(super) fn begin(&self, name: String) -> bool {
        if self.filter.as_ref().is_some_and(|filter| !name.contains(filter.as_str())) {
            return false;
        }
        self.lock().current = Some((name, self.clock.elapsed()));
        true
    }

    /// Ends the current test; `failure` is its message and place.
    pub(super) fn end(&self, failure: Option<(String, Option<String>)>) {
        let mut state = self.lock();
        let Some((name, began)) = state.current.take() else { return };
        let duration = self.clock.elapsed().saturating_sub(began);
        let ok = failure.is_none();
        let (message, place) = failure.map_or((None, None), |(message, place)| (Some(message), place));
        state.results.push(TestResult { name, ok, message, place, duration });
    }

    pub(super) fn finish(&self) -> (Vec<TestResult>, BTreeMap<String, BTreeMap<u32, u64>>) {
        let results = std::mem::take(&mut self.lock().results);
        (results, self.coverage.as_ref().map(Coverage::take).unwrap_or_default())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
