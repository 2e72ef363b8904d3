//! Copies of workspaces, taken before a call that may leave one half changed, to set it back where the call is cut off.
//!
//! They lie beside the workspace inside its environment, so a runtime that keeps an environment over the death of its
//! host keeps them too. A checkpoint is complete before its call is in the journal: a call that is in the journal
//! without an answer, and has a checkpoint, can be undone.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::world::{Attempt, lock};
use crate::script::HostCall;
use crate::script::port::WorkspaceId;
use crate::workspace::{self, WorkspaceError};

/// What may be half changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// A workspace.
    Space(WorkspaceId),
    /// The agent's home, where a harness keeps what it needs to go on with a session.
    Home,
}

/// What calls are changing right now.
#[derive(Debug, Default)]
pub(crate) struct Checkpoints {
    busy: Mutex<HashMap<Place, u32>>,
}

/// Returns what a call may leave half changed. Calls that come to the same when they are made again are not among them.
pub(crate) fn places(call: &HostCall) -> Vec<Place> {
    match call {
        HostCall::Session(call) if call.continue_from.is_some() => vec![Place::Space(call.workspace), Place::Home],
        HostCall::Session(call) => vec![Place::Space(call.workspace)],
        HostCall::Checks { workspace } | HostCall::Exec { workspace, .. } => vec![Place::Space(*workspace)],
        _ => Vec::new(),
    }
}

impl Checkpoints {
    /// Copies what a call may leave half changed. Where that cannot be done, or another call is changing the same, there
    /// is no checkpoint, and the attempt goes on without.
    pub(crate) async fn before(&self, attempt: &Attempt, seq: u64, call: &HostCall) {
        let places = places(call);
        let free: Vec<Place> = {
            let mut busy = lock(&self.busy);
            let mut free = Vec::new();
            for place in &places {
                let users = busy.entry(*place).or_default();
                *users += 1;
                if *users == 1 {
                    free.push(*place);
                }
            }
            free
        };
        for place in free {
            if let Err(error) = self.copy(attempt, seq, place).await {
                attempt.warn(format!("no checkpoint before call {seq}: {}", error.full_message()));
            }
        }
    }

    /// Notes that a call changes nothing any more.
    pub(crate) fn after(&self, call: &HostCall) {
        let mut busy = lock(&self.busy);
        for place in places(call) {
            if let Some(users) = busy.get_mut(&place) {
                *users = users.saturating_sub(1);
            }
        }
    }

    async fn copy(&self, attempt: &Attempt, seq: u64, place: Place) -> Result<(), WorkspaceError> {
        // An attempt without a finished session is started afresh, so it needs none. With forks, others may finish.
        let (root, forked) = {
            let spaces = attempt.spaces.lock().await;
            let Some(root) = root(attempt, &spaces, place) else { return Ok(()) };
            (root, spaces.are_forked())
        };
        if !forked && !lock(&attempt.sessions).has_finished() {
            return Ok(());
        }
        let folder = folder(attempt, place);
        // Older ones are of no use any more; an incomplete one of this number can only be of a host that died.
        workspace::discard(&*attempt.env, &folder).await?;
        workspace::fork(&*attempt.env, &root, &folder.join(seq.to_string())).await
    }
}

/// Sets back what a call has left half changed; tells which places could not be.
pub(crate) async fn set_back(attempt: &Attempt, seq: u64, call: &HostCall) -> Result<Vec<Place>, WorkspaceError> {
    let mut left = Vec::new();
    for place in places(call) {
        let root = {
            let spaces = attempt.spaces.lock().await;
            root(attempt, &spaces, place)
        };
        let copy = folder(attempt, place).join(seq.to_string());
        match root {
            Some(root) if workspace::exists(&*attempt.env, &copy).await? => {
                workspace::set_back(&*attempt.env, &copy, &root).await?;
            }
            _ => left.push(place),
        }
    }
    Ok(left)
}

fn root(attempt: &Attempt, spaces: &super::spaces::Spaces, place: Place) -> Option<PathBuf> {
    match place {
        Place::Space(id) => spaces.path(id.0).ok().map(Path::to_owned),
        Place::Home => Some(attempt.env.home().to_owned()),
    }
}

/// Where the checkpoint of a place lies; its name is the number of its call.
fn folder(attempt: &Attempt, place: Place) -> PathBuf {
    let main = attempt.env.workspace();
    let name = main.file_name().map_or_else(|| "work".into(), |name| name.to_string_lossy().into_owned());
    let of = match place {
        Place::Space(id) => id.0.to_string(),
        Place::Home => "home".to_owned(),
    };
    main.with_file_name(format!("{name}-checkpoints")).join(of)
}
