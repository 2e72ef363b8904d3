//! The event stream: one task stamps events with a gapless number and hands them to the store and to listeners.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::clock::Clock;
use crate::domain::event::EVENT_SCHEMA;
use crate::domain::{Event, EventKind};
use crate::store::{RunHandle, Store};

/// Takes events from every part of the engine. Clones feed one stream.
#[derive(Debug, Clone)]
pub struct EventSink {
    sender: mpsc::UnboundedSender<Option<EventKind>>,
}

impl EventSink {
    /// Emits an event. Events after the end of the stream are dropped.
    pub(crate) fn emit(&self, kind: EventKind) {
        // The stream ends before its senders only when the run is being torn down.
        let _ = self.sender.send(Some(kind));
    }

    /// Ends the stream. Sinks that are still held, by the thread of a script that was left behind, do not keep it open.
    pub(crate) fn end(&self) {
        let _ = self.sender.send(None);
    }
}

/// A listener: gets every event in order. Must not block for long; reporters that do I/O sit behind a channel.
pub type Listener = Box<dyn FnMut(&Event) + Send>;

/// The end of the stream that stamps and delivers.
pub(crate) struct EventStream {
    receiver: mpsc::UnboundedReceiver<Option<EventKind>>,
    run: RunHandle,
    clock: Arc<dyn Clock>,
    store: Store,
    listeners: Vec<Listener>,
}

/// How many events are stored in one write.
const BATCH: usize = 512;

impl EventStream {
    /// Opens a stream for a run.
    pub(crate) fn open(
        run: RunHandle,
        clock: Arc<dyn Clock>,
        store: Store,
        listeners: Vec<Listener>,
    ) -> (EventSink, Self) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (EventSink { sender }, Self { receiver, run, clock, store, listeners })
    }

    /// Delivers until the stream is ended or every sink is gone. Events are a view: when they cannot be stored, listeners still get them.
    pub(crate) async fn deliver(mut self) {
        let mut seq = 0;
        let mut batch = Vec::new();
        let mut open = true;
        while open && self.receiver.recv_many(&mut batch, BATCH).await > 0 {
            let ended = batch.iter().position(Option::is_none);
            open = ended.is_none();
            batch.truncate(ended.unwrap_or(batch.len()));
            let events: Vec<Event> = batch.drain(..).flatten().map(|kind| self.stamp(&mut seq, kind)).collect();
            for event in &events {
                for listener in &mut self.listeners {
                    listener(event);
                }
            }
            let kept = events.into_iter().filter(|event| !is_transient(&event.kind)).collect();
            if let Err(error) = self.store.add_events(&self.run, kept).await {
                tracing::warn!(%error, "events could not be stored");
            }
        }
    }

    fn stamp(&self, seq: &mut u64, kind: EventKind) -> Event {
        let event = Event { schema: EVENT_SCHEMA, seq: *seq, at: self.clock.now(), run: self.run.run.clone(), kind };
        *seq += 1;
        event
    }
}

/// Tells whether an event is a sign of life only: shown, but not kept.
fn is_transient(kind: &EventKind) -> bool {
    matches!(kind, EventKind::SessionProgress { .. })
}
