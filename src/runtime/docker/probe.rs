//! A short question to a container, answered by a process of its own.

use std::time::Duration;

use bollard::errors::Error;
use bollard::exec::{CreateExecOptions, StartExecOptions, StartExecResults};
use futures_util::StreamExt;

use super::container::Container;
use super::error::failed;
use super::layout;
use crate::redact::printable;
use crate::runtime::RuntimeError;

/// The most that is kept of what a process says.
const LONGEST: usize = 2048;

/// What came of a question.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// The exit code; `None` where the process had no end in its time.
    pub(super) code: Option<i64>,
    /// The beginning of what it printed, in one line.
    pub(super) output: String,
}

/// Runs a program as the agent, for no longer than some seconds.
pub(super) async fn ask(container: &Container, argv: Vec<String>, seconds: u64) -> Result<Answer, RuntimeError> {
    let asking = async {
        let said = run(container, argv).await;
        said.map_err(|error| failed("ask inside a container", &error))
    };
    match tokio::time::timeout(Duration::from_secs(seconds), asking).await {
        Ok(answer) => answer,
        // What still runs ends with the container at the latest.
        Err(_) => Ok(Answer { code: None, output: format!("no answer within {seconds} s") }),
    }
}

async fn run(container: &Container, argv: Vec<String>) -> Result<Answer, Error> {
    let options = CreateExecOptions {
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        // Of the image's own variables these would change which libraries a program gets.
        env: Some(vec!["LD_PRELOAD=".to_owned(), "LD_AUDIT=".to_owned()]),
        cmd: Some(argv),
        user: Some(format!("{0}:{0}", layout::AGENT)),
        working_dir: Some("/".to_owned()),
        ..CreateExecOptions::<String>::default()
    };
    let exec = container.client.create_exec(&container.id, options).await?.id;
    let mut output = Vec::new();
    if let StartExecResults::Attached { output: mut pieces, .. } =
        container.client.start_exec(&exec, Some(StartExecOptions::default())).await?
    {
        while let Some(piece) = pieces.next().await {
            let bytes = piece?.into_bytes();
            output.extend_from_slice(&bytes[..bytes.len().min(LONGEST - output.len())]);
        }
    }
    let code = container.client.inspect_exec(&exec).await?.exit_code;
    let text = String::from_utf8_lossy(&output);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    Ok(Answer { code, output: printable(&lines.join("; ")) })
}
