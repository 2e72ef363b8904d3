//! Feeds reporters from a thread of their own, so that a slow terminal never slows a run.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use crate::domain::Event;
use crate::engine::events::Listener;
use crate::report::Reporter;

/// The thread that reporters live on.
pub(super) struct Reporting {
    thread: JoinHandle<()>,
}

impl Reporting {
    /// Starts the thread; the listener feeds it and ends it by being dropped.
    pub(super) fn start(reporters: Vec<Box<dyn Reporter>>) -> std::io::Result<(Self, Listener)> {
        let (sender, receiver): (Sender<Event>, Receiver<Event>) = channel();
        let thread = std::thread::Builder::new()
            .name("refrain-report".to_owned())
            .spawn(move || report(reporters, &receiver))?;
        let listener: Listener = Box::new(move |event| {
            // The thread ends only after the sender; a panic of a reporter must not end the run.
            let _ = sender.send(event.clone());
        });
        Ok((Self { thread }, listener))
    }

    /// Waits until every event has been shown.
    pub(super) fn finish(self) {
        if self.thread.join().is_err() {
            tracing::warn!("a reporter panicked");
        }
    }
}

fn report(mut reporters: Vec<Box<dyn Reporter>>, events: &Receiver<Event>) {
    while let Ok(event) = events.recv() {
        reporters.retain_mut(|reporter| keep(reporter.event(&event)));
    }
    for mut reporter in reporters {
        keep(reporter.finish());
    }
}

/// A display that fails is dropped with one warning.
fn keep(result: std::io::Result<()>) -> bool {
    if let Err(error) = &result {
        tracing::warn!(%error, "a display failed and was dropped");
    }
    result.is_ok()
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::domain::{EventKind, RunName};

    struct Flaky {
        seen: Arc<Mutex<usize>>,
        fails: bool,
    }

    impl Reporter for Flaky {
        fn event(&mut self, _: &Event) -> io::Result<()> {
            *self.seen.lock().unwrap() += 1;
            if self.fails { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
        }
    }

    #[test]
    fn a_display_that_fails_is_dropped_and_the_others_go_on() {
        let counts = [Arc::new(Mutex::new(0)), Arc::new(Mutex::new(0))];
        let reporters: Vec<Box<dyn Reporter>> = vec![
            Box::new(Flaky { seen: Arc::clone(&counts[0]), fails: true }),
            Box::new(Flaky { seen: Arc::clone(&counts[1]), fails: false }),
        ];
        let (reporting, mut listener) = Reporting::start(reporters).expect("a thread");
        for seq in 0..3 {
            listener(&Event {
                schema: 1,
                seq,
                at: jiff::Timestamp::UNIX_EPOCH,
                run: RunName::new("r").expect("valid"),
                kind: EventKind::Warning { message: String::new() },
            });
        }
        drop(listener);
        reporting.finish();
        assert_eq!((*counts[0].lock().unwrap(), *counts[1].lock().unwrap()), (1, 3));
    }
}
