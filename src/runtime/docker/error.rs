//! What the daemon's answers mean for a runtime.

use bollard::errors::Error;

use crate::runtime::RuntimeError;

/// Turns a refusal or a broken connection into an error that names what was tried.
pub(super) fn failed(action: &'static str, error: &Error) -> RuntimeError {
    match error {
        Error::DockerResponseServerError { status_code: 404, message } => RuntimeError::Lost(message.clone()),
        Error::DockerResponseServerError { status_code: 409, message } if message.contains("is not running") => {
            RuntimeError::Lost(message.clone())
        }
        Error::DockerResponseServerError { message, .. } => io(action, message.clone()),
        other => io(action, chain(other)),
    }
}

fn io(action: &'static str, message: String) -> RuntimeError {
    RuntimeError::Io { action, source: std::io::Error::other(message) }
}

/// Tells whether the daemon says that there is no such thing.
pub(super) fn is_absent(error: &Error) -> bool {
    matches!(error, Error::DockerResponseServerError { status_code: 404, .. })
}

/// The error and its causes in one line: the outermost alone says little of a broken connection.
pub(super) fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        source = cause.source();
    }
    text
}
