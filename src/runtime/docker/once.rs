//! A container whose main process is the work: runs to its end, and is removed or committed.

use std::collections::HashMap;
use std::time::Duration;

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::models::{ContainerConfig, ContainerCreateBody};
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, CommitContainerOptionsBuilder, CreateContainerOptionsBuilder, WaitContainerOptions,
};
use futures_util::StreamExt;
use tokio_util::sync::CancellationToken;

use super::error::failed;
use super::{container, labels};
use crate::clock::Clock;
use crate::runtime::{Progress, RuntimeError};

/// The most bytes that are kept of each stream.
const KEPT: usize = 16 * 1024;

/// How the work ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// Its exit code; `None` where it ran out of its time.
    pub(super) code: Option<i64>,
    /// The end of what it printed on standard output.
    pub(super) stdout: Vec<u8>,
    /// The end of what it printed on both streams.
    pub(super) output: Vec<u8>,
}

/// A container that was created and not started yet.
pub(super) struct Work<'a> {
    pub(super) client: &'a Docker,
    pub(super) id: String,
}

/// What the work may take.
pub(super) struct Bounds<'a> {
    pub(super) clock: &'a dyn Clock,
    pub(super) timeout: Duration,
    pub(super) stop: &'a CancellationToken,
}

/// Creates a container that the next sweep removes, should this process die.
pub(super) async fn create(client: &Docker, mut body: ContainerCreateBody) -> Result<Work<'_>, RuntimeError> {
    let unique = format!("refrain-prepare-{}", uuid::Uuid::new_v4().simple());
    let options = CreateContainerOptionsBuilder::new().name(&unique).build();
    body.labels = Some(labels::short_lived());
    let created = client.create_container(Some(options), body).await;
    Ok(Work { client, id: created.map_err(|error| failed("create a container", &error))?.id })
}

impl Work<'_> {
    /// Starts the work and waits for its end. `line` hears every line that it prints.
    pub(super) async fn run(&self, bounds: &Bounds<'_>, line: &Progress<'_>) -> Result<Ended, RuntimeError> {
        let options = AttachContainerOptionsBuilder::new().stream(true).stdout(true).stderr(true).build();
        let attached = self.client.attach_container(&self.id, Some(options)).await;
        let mut output = attached.map_err(|error| failed("attach to a container", &error))?.output;
        let started = self.client.start_container(&self.id, None).await;
        started.map_err(|error| failed("start a container", &error))?;
        let mut ended = Ended { code: None, stdout: Vec::new(), output: Vec::new() };
        let reading = async {
            let mut lines = Lines::default();
            while let Some(piece) = output.next().await {
                let piece = piece.map_err(|error| failed("read the output of a container", &error))?;
                if let LogOutput::StdOut { message } = &piece {
                    keep(&mut ended.stdout, message);
                }
                let bytes = piece.into_bytes();
                keep(&mut ended.output, &bytes);
                lines.take(&bytes, line);
            }
            self.exit_code().await
        };
        tokio::select! {
            code = reading => {
                ended.code = Some(code?);
                Ok(ended)
            }
            () = bounds.clock.sleep(bounds.timeout) => Ok(ended),
            () = bounds.stop.cancelled() => Err(RuntimeError::Stopped),
        }
    }

    async fn exit_code(&self) -> Result<i64, RuntimeError> {
        let mut waiting = self.client.wait_container(&self.id, None::<WaitContainerOptions>);
        match waiting.next().await {
            Some(Ok(ended)) => Ok(ended.status_code),
            Some(Err(bollard::errors::Error::DockerContainerWaitError { code, .. })) => Ok(code),
            Some(Err(error)) => Err(failed("wait for a container", &error)),
            None => Err(RuntimeError::Lost("the daemon does not say how a container ended".to_owned())),
        }
    }

    /// Keeps the container's files as an image with these labels; returns its id.
    pub(super) async fn commit(
        &self,
        name: Option<&str>,
        labels: HashMap<String, String>,
    ) -> Result<String, RuntimeError> {
        let mut options = CommitContainerOptionsBuilder::new().container(&self.id).pause(false);
        if let Some((repository, tag)) = name.and_then(|name| name.split_once(':')) {
            options = options.repo(repository).tag(tag);
        }
        let config = ContainerConfig {
            labels: Some(labels),
            // What ran here is no part of the image.
            entrypoint: Some(vec!["sh".to_owned()]),
            cmd: Some(Vec::new()),
            ..ContainerConfig::default()
        };
        let committed = self.client.commit_container(options.build(), config).await;
        Ok(committed.map_err(|error| failed("keep an image", &error))?.id)
    }

    /// Removes the container, and ends the work with it.
    pub(super) async fn remove(&self) {
        // The next sweep does it where this fails.
        if let Err(error) = container::remove(self.client, &self.id).await {
            tracing::warn!(container = self.id, %error, "a container was not removed");
        }
    }
}

/// Appends, and forgets the beginning of what is too much.
fn keep(kept: &mut Vec<u8>, bytes: &[u8]) {
    kept.extend_from_slice(bytes);
    if kept.len() > KEPT {
        kept.drain(..kept.len() - KEPT);
    }
}

/// Puts pieces together to lines.
#[derive(Default)]
struct Lines(Vec<u8>);

impl Lines {
    fn take(&mut self, bytes: &[u8], line: &Progress<'_>) {
        for byte in bytes {
            // Progress bars return to the line's beginning.
            if !matches!(byte, b'\n' | b'\r') {
                if self.0.len() < KEPT {
                    self.0.push(*byte);
                }
                continue;
            }
            let text = crate::redact::printable(String::from_utf8_lossy(&self.0).trim());
            if !text.is_empty() {
                line(&text);
            }
            self.0.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn lines_are_put_together_across_pieces() {
        let heard = Mutex::new(Vec::new());
        let mut lines = Lines::default();
        for piece in [&b"one\ntw"[..], b"o\r", b"\r\n\x1b[1mthree\x1b[0m\nrest"] {
            lines.take(piece, &|line| heard.lock().expect("a list").push(line.to_owned()));
        }
        assert_eq!(*heard.lock().expect("a list"), ["one", "two", "three"]);
    }

    #[test]
    fn the_end_is_kept() {
        let mut kept = Vec::new();
        keep(&mut kept, &vec![b'a'; KEPT]);
        keep(&mut kept, b"end");
        assert_eq!(kept.len(), KEPT);
        assert!(kept.ends_with(b"aend"));
    }
}
