//! Tells a port when its script has nothing left to do but wait for answers.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

use super::gate::Gate;

/// A script's future that reports to the port, after each poll that left nothing runnable, that the script is idle.
pub(super) struct Attentive<F> {
    gate: Arc<Gate>,
    inner: F,
    signal: Arc<Signal>,
    waker: Waker,
}

impl<F> Attentive<F> {
    pub(super) fn new(gate: Arc<Gate>, inner: F) -> Self {
        let signal = Arc::new(Signal { woken: AtomicBool::new(false), outer: AtomicWaker::new() });
        Self { gate, inner, waker: Waker::from(Arc::clone(&signal)), signal }
    }
}

impl<F: Future + Unpin> Future for Attentive<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        this.signal.outer.register(context.waker());
        this.signal.woken.store(false, Ordering::SeqCst);
        let polled = Pin::new(&mut this.inner).poll(&mut Context::from_waker(&this.waker));
        // A branch that was woken during the poll still has work: the script is idle only when none has.
        if polled.is_pending() && !this.signal.woken.load(Ordering::SeqCst) {
            this.gate.idle();
        }
        polled
    }
}

/// Passes a wake-up on and remembers it.
struct Signal {
    woken: AtomicBool,
    outer: AtomicWaker,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        self.outer.wake();
    }
}
