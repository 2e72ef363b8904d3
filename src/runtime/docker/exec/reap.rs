//! Ending what runs in a container, from a process of its own beside it.

use std::sync::Arc;
use std::time::Duration;

use bollard::container::LogOutput;
use bollard::models::ContainerUpdateBody;
use futures_util::StreamExt;
use tokio::sync::Mutex;

use super::super::container::Container;
use super::super::error::failed;
use super::daemon::{self, Fate};
use super::frame::Begun;
use crate::runtime::RuntimeError;

const SCRIPT: &str = concat!(include_str!("tree.sh"), include_str!("reap.sh"));
/// How long the process may take: it reads the process table a few times.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it is tried anew: an agent may kill it.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(100);
/// By how much a limit of processes that is reached is raised meanwhile: an exec needs some to start.
const ROOM: i64 = 512;

/// Which signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// The polite one, once.
    Term,
    /// The deadly one, until nobody is left.
    Kill,
    /// None.
    Count,
}

/// Whose processes.
#[derive(Debug, Clone)]
pub(super) enum Whose {
    /// Those of a command, without its wrapper where that is known.
    Command(String, Option<Begun>),
    /// Everybody's but root's.
    All,
}

/// What ending them came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Reaped {
    pub(super) killed: usize,
    pub(super) left: usize,
}

/// Signals processes in the container and counts those that are left.
///
/// # Errors
///
/// [`RuntimeError::Lost`] if the container is gone, [`RuntimeError::Io`] if nothing can be started in it.
pub(super) async fn reap(container: &Container, how: How, whose: &Whose) -> Result<Reaped, RuntimeError> {
    let mut raised = false;
    let reaped = reap_in(container, how, whose, &mut raised).await;
    if raised {
        container.commands.room.leave(container).await;
    }
    reaped
}

/// Does so, and says whether it had to raise the limit of processes.
async fn reap_in(container: &Container, how: How, whose: &Whose, raised: &mut bool) -> Result<Reaped, RuntimeError> {
    let mut why = String::new();
    for _ in 0..TRIES {
        match attempt(container, how, whose).await? {
            Ok(reaped) => return Ok(reaped),
            Err(said) => why = said,
        }
        if let Some(cause) = daemon::cause_of_loss(container).await? {
            return Err(RuntimeError::Lost(cause));
        }
        if !*raised {
            *raised = true;
            container.commands.room.enter(container).await?;
        }
        tokio::time::sleep(PAUSE).await;
    }
    let source = std::io::Error::other(format!("nothing can be started in the container: {}", why.trim()));
    Err(RuntimeError::Io { action: "end the command's processes", source })
}

/// Runs the script once; what it or the daemon said instead of a count is the inner error.
async fn attempt(container: &Container, how: How, whose: &Whose) -> Result<Result<Reaped, String>, RuntimeError> {
    let how = match how {
        How::Term => "term",
        How::Kill => "kill",
        How::Count => "count",
    };
    let (id, begun) = match whose {
        Whose::Command(id, begun) => (id.as_str(), *begun),
        Whose::All => ("", None),
    };
    let (wrapper, poller) =
        begun.map_or_else(Default::default, |begun| (begun.wrapper.to_string(), begun.poller.to_string()));
    let argv = ["sh", "-c", SCRIPT, "refrain-reap", how, id, &wrapper, &poller, &container.token];
    let exec = daemon::create(container, &argv, None).await?;
    let mut channel = match daemon::start(container, &exec).await {
        Ok(channel) => channel,
        Err(RuntimeError::Lost(why)) => return Err(RuntimeError::Lost(why)),
        Err(error) => return Ok(Err(error.to_string())),
    };
    let mut said = String::new();
    let reading = async {
        while let Some(Ok(piece)) = channel.output.next().await {
            if let LogOutput::StdOut { message } | LogOutput::Console { message } = piece {
                said.push_str(&String::from_utf8_lossy(&message));
            }
        }
    };
    let _ = tokio::time::timeout(PATIENCE, reading).await;
    Ok(parse(&said).ok_or(said))
}

fn parse(said: &str) -> Option<Reaped> {
    let mut words = said.split_whitespace();
    let mut count = |name: &str| (words.next()? == name).then(|| words.next()?.parse().ok()).flatten();
    Some(Reaped { killed: count("killed")?, left: count("left")? })
}

/// A raised limit of processes: where a command has used its limit up, nothing could be started that ends it. It is raised
/// once, for whoever needs it at the same time, and is what it was when the last of them is done: a command that uses up
/// every limit again and again gets no higher by it.
#[derive(Debug, Default)]
pub(super) struct Room(Mutex<Raised>);

#[derive(Debug, Default)]
struct Raised {
    users: usize,
    /// The limit as it is configured; `None` where there is none.
    limit: Option<i64>,
}

impl Room {
    async fn enter(&self, container: &Container) -> Result<(), RuntimeError> {
        let mut raised = self.0.lock().await;
        raised.users += 1;
        if raised.users > 1 {
            return Ok(());
        }
        let inspect = || container.client.inspect_container(&container.id, None);
        let found = daemon::patiently(inspect).await.map_err(|error| failed("inspect the container", &error))?;
        raised.limit = found.host_config.and_then(|config| config.pids_limit).filter(|&limit| limit > 0);
        if let Some(limit) = raised.limit {
            set_limit(container, limit + ROOM).await;
        }
        Ok(())
    }

    async fn leave(&self, container: &Container) {
        let mut raised = self.0.lock().await;
        raised.users = raised.users.saturating_sub(1);
        if raised.users > 0 {
            return;
        }
        if let Some(limit) = raised.limit.take() {
            set_limit(container, limit).await;
        }
    }
}

async fn set_limit(container: &Container, limit: i64) {
    let body = ContainerUpdateBody { pids_limit: Some(limit), ..ContainerUpdateBody::default() };
    if let Err(error) = container.client.update_container(&container.id, body).await {
        tracing::warn!(container = container.id, %error, "the limit of processes could not be set to {limit}");
    }
}

/// Kills everything of a command whose caller has gone away, its wrapper too.
pub(super) async fn end_abandoned(container: &Arc<Container>, id: String, exec: String) {
    let whose = Whose::Command(id, None);
    for _ in 0..TRIES {
        let reaped = match reap(container, How::Kill, &whose).await {
            Ok(reaped) => reaped,
            Err(error) => {
                tracing::warn!(container = container.id, %error, "a command that was given up may still run");
                return;
            }
        };
        // One that was just being started turns up a moment later.
        match daemon::fate(container, &exec).await {
            Ok(Fate::Running) => tokio::time::sleep(PAUSE).await,
            _ if reaped.left == 0 => return,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_read_and_nothing_else_is_taken_for_one() {
        assert_eq!(parse("killed 3 left 0\n"), Some(Reaped { killed: 3, left: 0 }));
        assert_eq!(parse(""), None);
        assert_eq!(parse("OCI runtime exec failed: no room"), None);
    }
}
