//! What a copy that failed means: the container is gone, or something is wrong with the path.

use std::io;
use std::path::Path;

use bollard::errors::Error;

use super::super::container::Container;
use super::super::error::{failed, is_absent};
use super::super::exec::daemon::patiently;
use crate::runtime::RuntimeError;

/// A failure that has to do with a path.
pub(super) fn file_error(action: &'static str, path: &Path, source: io::Error) -> RuntimeError {
    RuntimeError::File { action, path: path.to_owned(), source }
}

/// Finds out what the daemon's refusal to copy means. It answers 404 for a container that is gone and for a path that
/// does not exist alike, and a connection that breaks may have any cause, so the container is looked for.
pub(super) async fn of_daemon(container: &Container, path: &Path, error: &Error) -> RuntimeError {
    if let Err(gone) = patiently(|| container.client.inspect_container(&container.id, None)).await {
        let why = failed("copy", &gone).to_string();
        return RuntimeError::Lost(if is_absent(&gone) { why } else { format!("the daemon does not answer: {why}") });
    }
    let source = match error {
        error if is_absent(error) => io::Error::new(io::ErrorKind::NotFound, "there is no such path in the container"),
        Error::DockerResponseServerError { message, .. } => io::Error::other(message.clone()),
        other => match failed("copy", other) {
            RuntimeError::Io { source, .. } => source,
            other => io::Error::other(other.to_string()),
        },
    };
    file_error("copy", path, source)
}
