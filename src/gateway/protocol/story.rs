//! What the documents of an answer tell together.

use crate::domain::{Micros, Usage};

use super::api::{Api, Family};
use super::counts::Counts;
use super::event::{self, Event, Said};
use super::json::{Key, Kind, Scalar, Scanner, Visit};
use super::sse::Events;

/// The sum of what an answer has told.
#[derive(Debug)]
pub(super) struct Story {
    api: Api,
    counts: Counts,
    /// The count of the output is the last one.
    settled: bool,
    foreign: bool,
    pub(super) model: Option<String>,
    pub(super) error: Option<String>,
    pub(super) cost: Option<Micros>,
    /// How often an event came that ends the answer.
    pub(super) ends: u32,
    /// Events that could not be read.
    pub(super) unreadable: u32,
    status: u16,
}

impl Story {
    pub(super) fn new(api: Api, status: u16) -> Self {
        Self {
            api,
            counts: Counts::default(),
            settled: false,
            foreign: false,
            model: None,
            error: None,
            cost: None,
            ends: 0,
            unreadable: 0,
            status,
        }
    }

    pub(super) fn usage(&self) -> Usage {
        if self.foreign {
            return Usage::UNKNOWN;
        }
        self.counts.usage(self.api.family(), self.settled)
    }

    pub(super) fn cache_write_long(&self) -> Option<u64> {
        self.counts.cache_write_long(self.api.family())
    }

    pub(super) fn end(&mut self) {
        self.ends = self.ends.saturating_add(1);
        // An Anthropic stream tells its last counts in an event of their own.
        self.settled |= self.api != Api::AnthropicMessages && self.error.is_none();
    }

    /// Adds what a document told.
    fn add(&mut self, event: Event) {
        let Event { said, counts, model, error, remark, no_choices, cost, foreign, .. } = event;
        let remark = remark.filter(|_| self.status >= 400 || said == Said::Error);
        let error = error.or(remark);
        self.model = self.model.take().or(model);
        self.cost = cost.or(self.cost);
        self.foreign |= foreign;
        let told = counts.is_told();
        if told {
            self.counts = match self.api.family() {
                // Counted on from event to event.
                Family::Anthropic => self.counts.grown(counts),
                Family::OpenAi | Family::Gemini => counts,
            };
        }
        match self.api {
            Api::AnthropicMessages => self.settled |= told && said != Said::Start,
            Api::OpenAiResponses => self.settled |= told,
            // Where usage comes with pieces of text, more of it may follow.
            Api::OpenAiChat => self.settled |= told && no_choices,
            _ => {}
        }
        if said == Said::End && self.api != Api::OpenAiChat {
            self.end();
        }
        if error.is_some() || said == Said::Error {
            self.ends = self.ends.saturating_add(1);
            self.error = self.error.take().or(error);
        }
    }
}

/// Reads the events of a stream into a story.
pub(super) struct StreamReader<'a> {
    pub(super) story: &'a mut Story,
    pub(super) scanner: &'a mut Scanner,
    pub(super) parts: &'a mut Option<Event>,
    /// The stream is over: an event that is not whole was cut.
    pub(super) over: bool,
}

impl StreamReader<'_> {
    fn add(&mut self, event: Event) {
        if self.scanner.is_complete() {
            self.story.add(event);
        } else if !self.over {
            self.story.unreadable = self.story.unreadable.saturating_add(1);
        }
    }
}

impl Events for StreamReader<'_> {
    fn event(&mut self, data: &[u8]) {
        let data = data.trim_ascii();
        if data.is_empty() {
            return;
        }
        if data == b"[DONE]" {
            self.story.end();
            return;
        }
        if data.starts_with(b"{")
            && data.ends_with(b"}")
            && !event::may_tell(self.story.api, self.story.model.is_some(), data)
        {
            return;
        }
        let mut event = Event::default();
        self.scanner.restart();
        self.scanner.feed(data, &mut event);
        self.add(event);
    }

    fn part(&mut self, data: &[u8]) {
        let event = self.parts.get_or_insert_with(|| {
            self.scanner.restart();
            Event::default()
        });
        self.scanner.feed(data, event);
    }

    fn end(&mut self) {
        if let Some(event) = self.parts.take() {
            self.add(event);
        }
    }
}

/// Reads an answer in one piece into a story: an object, or an array of what would be events.
#[derive(Debug, Default)]
pub(super) struct Document {
    event: Event,
}

impl Document {
    /// Reads a piece.
    pub(super) fn feed(&mut self, bytes: &[u8], scanner: &mut Scanner, story: &mut Story) {
        let was_complete = scanner.is_complete();
        let mut reading = Elements { event: &mut self.event, story };
        scanner.feed(bytes, &mut reading);
        if !was_complete && scanner.is_complete() {
            story.add(std::mem::take(&mut self.event));
            story.end();
        }
    }

    /// Adds what was told before the document broke off. What it said of its end does not hold.
    pub(super) fn broke_off(&mut self, story: &mut Story) {
        let mut event = std::mem::take(&mut self.event);
        event.said = Said::Other;
        story.add(event);
    }
}

struct Elements<'a> {
    event: &'a mut Event,
    story: &'a mut Story,
}

impl Visit for Elements<'_> {
    fn begins(&mut self, path: &[Key], kind: Kind, at: u64) -> bool {
        self.event.begins(path, kind, at)
    }

    fn scalar(&mut self, path: &[Key], value: Scalar<'_>, end: u64) {
        self.event.scalar(path, value, end);
    }

    fn closes(&mut self, path: &[Key], kind: Kind, at: u64) {
        self.event.closes(path, kind, at);
        if path == [Key::Item] {
            self.story.add(std::mem::take(self.event));
        }
    }
}
