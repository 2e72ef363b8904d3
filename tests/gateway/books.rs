//! A recorder that remembers, and can be slow or fail.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use refrain::domain::Exchange;
use refrain::gateway::{Bodies, Recorder, RecorderError};
use tokio::sync::{Semaphore, watch};

/// What was told, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Books(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    begun: Mutex<Vec<Exchange>>,
    ended: watch::Sender<Vec<(Exchange, Option<Bodies>)>>,
    fails: Mutex<Option<String>>,
    /// How many may be recorded yet.
    leave: Semaphore,
}

impl Default for Inner {
    fn default() -> Self {
        Self {
            begun: Mutex::default(),
            ended: watch::Sender::default(),
            fails: Mutex::default(),
            leave: Semaphore::new(Semaphore::MAX_PERMITS),
        }
    }
}

impl Books {
    pub(crate) fn begun(&self) -> Vec<Exchange> {
        self.0.begun.lock().unwrap().clone()
    }

    pub(crate) fn ended(&self) -> Vec<Exchange> {
        self.0.ended.borrow().iter().map(|(exchange, _)| exchange.clone()).collect()
    }

    pub(crate) fn bodies(&self) -> Vec<Option<Bodies>> {
        self.0.ended.borrow().iter().map(|(_, bodies)| bodies.clone()).collect()
    }

    /// Waits until so many exchanges have ended and returns them.
    pub(crate) async fn wait(&self, count: usize) -> Vec<Exchange> {
        self.0.ended.subscribe().wait_for(|ended| ended.len() >= count).await.expect("the sender lives");
        self.ended()
    }

    /// Lets nothing be recorded from now on.
    pub(crate) fn fail(&self, message: &str) {
        *self.0.fails.lock().unwrap() = Some(message.to_owned());
    }

    /// Lets recording wait until [`Books::release`].
    pub(crate) fn hold(&self) {
        self.0.leave.forget_permits(usize::MAX);
    }

    pub(crate) fn release(&self) {
        self.0.leave.add_permits(1_000_000);
    }
}

#[async_trait]
impl Recorder for Books {
    async fn begun(&self, exchange: &Exchange) -> Result<(), RecorderError> {
        self.0.begun.lock().unwrap().push(exchange.clone());
        Ok(())
    }

    async fn ended(&self, exchange: Exchange, bodies: Option<Bodies>) -> Result<(), RecorderError> {
        self.0.leave.acquire().await.expect("it is never closed").forget();
        if let Some(message) = self.0.fails.lock().unwrap().clone() {
            return Err(RecorderError { message });
        }
        self.0.ended.send_modify(|ended| ended.push((exchange, bodies)));
        Ok(())
    }
}
