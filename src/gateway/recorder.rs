//! Where exchanges are told.

use async_trait::async_trait;

use crate::domain::Exchange;

/// What passed in an exchange, redacted and cut at the limit of the gateway's options.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bodies {
    /// The request's body, as it would be without compression.
    pub request: Vec<u8>,
    /// The answer's body, as it would be without compression.
    pub answer: Vec<u8>,
    /// Whether one of them was cut, or is compressed in a way that is not read and left out for that.
    pub cut: bool,
}

/// An exchange could not be kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the exchange could not be recorded: {message}")]
pub struct RecorderError {
    /// Why.
    pub message: String,
}

/// Keeps exchanges.
#[async_trait]
pub trait Recorder: Send + Sync {
    /// An exchange is about to be sent to the provider, which is done once this returns. Its usage, cost, status and end are
    /// those of one that was lost: what is on the books if nothing more is heard of it. The books must outlive this
    /// process; a failure of the machine may take such an entry with it.
    ///
    /// # Errors
    ///
    /// [`RecorderError`]: the request is refused, and the session refuses all further ones.
    async fn begun(&self, exchange: &Exchange) -> Result<(), RecorderError>;

    /// An exchange has ended; returns once it is durable. Called once for each, and before the client gets the end of
    /// the answer.
    ///
    /// # Errors
    ///
    /// [`RecorderError`]: the client then sees the exchange fail, and the session refuses all further ones.
    async fn ended(&self, exchange: Exchange, bodies: Option<Bodies>) -> Result<(), RecorderError>;
}
