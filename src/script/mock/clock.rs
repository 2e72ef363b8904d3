//! Time that passes only when everybody waits.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::sync::oneshot;

/// What happens at a time.
enum Action {
    Wake(oneshot::Sender<()>),
    Call(Box<dyn FnOnce() + Send>),
}

#[derive(Default)]
struct State {
    now: Duration,
    sequence: u64,
    /// By time, then in the order in which they were asked for.
    timers: BTreeMap<(Duration, u64), Action>,
}

/// A clock that jumps to the next timer whenever nothing else can go on. Clones share one time.
#[derive(Clone, Default)]
pub struct VirtualClock(Arc<Mutex<State>>);

impl VirtualClock {
    /// Makes a clock at time 0.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the time that has passed.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.lock().now
    }

    /// Waits in virtual time. Cancel-safe.
    pub async fn sleep(&self, duration: Duration) {
        if duration.is_zero() {
            return;
        }
        let (sender, receiver) = oneshot::channel();
        {
            let mut state = self.lock();
            let until = state.now.saturating_add(duration);
            state.add(until, Action::Wake(sender));
        }
        // The sender is gone only with the clock itself.
        let _ = receiver.await;
    }

    /// Calls a function when the time comes.
    pub(super) fn at(&self, time: Duration, function: impl FnOnce() + Send + 'static) {
        self.lock().add(time, Action::Call(Box::new(function)));
    }

    /// Polls a future to its end, moving time on whenever it waits. `stuck` is called where it waits for no timer; it must
    /// make the future end.
    pub(super) fn drive<F: Future>(&self, future: F, stuck: impl FnOnce()) -> F::Output {
        let mut future = pin!(future);
        let flag = Arc::new(Flag::default());
        let waker = Waker::from(Arc::clone(&flag));
        let mut context = Context::from_waker(&waker);
        let mut stuck = Some(stuck);
        loop {
            flag.0.store(false, Ordering::Release);
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return output;
            }
            while !flag.0.load(Ordering::Acquire) {
                if self.advance() {
                    continue;
                }
                match stuck.take() {
                    Some(stuck) => stuck(),
                    // A future that waits on after that would wait for ever; polling it again is all that is left.
                    None => break,
                }
            }
        }
    }

    /// Moves on to the next timer; tells whether there was one.
    fn advance(&self) -> bool {
        let action = {
            let mut state = self.lock();
            let Some(((time, _), action)) = state.timers.pop_first() else { return false };
            state.now = state.now.max(time);
            action
        };
        match action {
            // A sleeper that was dropped no longer listens.
            Action::Wake(sender) => drop(sender.send(())),
            Action::Call(function) => function(),
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, time: Duration, action: Action) {
        self.sequence += 1;
        self.timers.insert((time, self.sequence), action);
    }
}

impl std::fmt::Debug for VirtualClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("VirtualClock").field(&self.now()).finish()
    }
}

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_passes_at_once_and_in_order() {
        let clock = VirtualClock::new();
        let order = clock.drive(
            async {
                let log = Mutex::new(Vec::new());
                let nap = |name: &'static str, seconds| {
                    let (clock, log) = (clock.clone(), &log);
                    async move {
                        clock.sleep(Duration::from_secs(seconds)).await;
                        log.lock().expect("unpoisoned").push((name, clock.now().as_secs()));
                    }
                };
                tokio::join!(nap("hour", 3600), nap("minute", 60), nap("second", 1));
                log.into_inner().expect("unpoisoned")
            },
            || panic!("it never waits for nothing"),
        );
        assert_eq!(order, [("second", 1), ("minute", 60), ("hour", 3600)]);
    }

    #[test]
    fn waiting_for_nothing_is_noticed() {
        let clock = VirtualClock::new();
        let (sender, receiver) = oneshot::channel::<&str>();
        let output = clock.drive(async { receiver.await.expect("sent") }, || sender.send("stuck").expect("listens"));
        assert_eq!(output, "stuck");
    }
}
