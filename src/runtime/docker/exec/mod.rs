//! Commands in a container.

use tokio_util::sync::CancellationToken;

use super::container::Container;
use crate::clock::Clock;
use crate::runtime::{Command, ExecReport, Output, Quiescence, RuntimeError};

/// Runs a command to its one end.
pub(super) async fn run(
    _container: &Container,
    _clock: &dyn Clock,
    _command: &Command,
    _output: Output,
    _stop: &CancellationToken,
) -> Result<ExecReport, RuntimeError> {
    Err(RuntimeError::Lost("placeholder".to_owned()))
}

/// Ends every process that commands have left.
pub(super) async fn quiesce(_container: &Container) -> Result<Quiescence, RuntimeError> {
    Err(RuntimeError::Lost("placeholder".to_owned()))
}
