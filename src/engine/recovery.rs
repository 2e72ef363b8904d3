//! What an earlier host of an attempt had begun and not finished when it died.
//!
//! A session is finished if its record is in the store, if its log holds a terminal record, or if its environment knows
//! that its command had ended by itself: it is taken up as it is and never held twice. Any other is lost: what it cost is unknown, which the ledger says, and it is held anew over the
//! workspace as it was before.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::accounts;
use super::casting::choose_model;
use super::checkpoints::{self, Place, places};
use super::journal::Reply;
use super::session;
use super::spaces::SpaceError;
use super::world::{Attempt, CutOffStarts, describe, lock};
use crate::domain::Micros;
use crate::script::{Answer, HostCall};
use crate::store::{CallSums, LedgerEntry, LedgerKind};

/// A call that was under way.
#[derive(Debug)]
pub(crate) struct CutOff {
    pub(crate) seq: u64,
    /// When it was begun.
    pub(crate) at: Timestamp,
    pub(crate) call: HostCall,
    /// The number of its session, if it is one.
    pub(crate) session: Option<u32>,
}

/// A call that was answered, and has changed something.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) seq: u64,
    pub(crate) call: HostCall,
    pub(crate) answer: Answer,
}

/// Puts the world where the journal has left it. Returns the answers of calls that turned out to be finished.
///
/// # Errors
///
/// Why the attempt cannot go on.
pub(crate) async fn put_in_place(
    attempt: &Attempt,
    changes: Vec<Change>,
    cut_off: Vec<CutOff>,
) -> Result<HashMap<u64, Reply>, String> {
    take_up_spaces(attempt, &changes, &cut_off).await?;
    let mut found = HashMap::new();
    for call in &cut_off {
        if let Some(reply) = take_up_session(attempt, call).await? {
            found.insert(call.seq, reply);
        }
    }
    book(attempt, &cut_off).await?;
    if !lock(&attempt.sessions).has_finished() {
        return Err("none of its sessions had finished".to_owned());
    }
    for call in cut_off.iter().filter(|call| !found.contains_key(&call.seq)) {
        set_back(attempt, call, &changes).await?;
    }
    Ok(found)
}

async fn take_up_spaces(attempt: &Attempt, changes: &[Change], cut_off: &[CutOff]) -> Result<(), String> {
    let mut spaces = attempt.spaces.lock().await;
    for change in changes {
        match (&change.call, &change.answer) {
            (HostCall::Fork { .. }, Answer::Workspace(id)) => spaces.made(id.0),
            (HostCall::Discard { workspace }, _) => spaces.gone(workspace.0),
            _ => {}
        }
    }
    let forks = cut_off.iter().filter(|call| matches!(call.call, HostCall::Fork { .. })).count();
    let cleared = spaces.clear(&*attempt.env, u32::try_from(forks).unwrap_or(u32::MAX)).await;
    cleared.map_err(|error| match error {
        SpaceError::Unknown(number) => format!("workspace {number} is gone"),
        SpaceError::Workspace(error) => error.full_message(),
    })
}

/// Answers with a session that is finished; puts the log of a lost one aside.
async fn take_up_session(attempt: &Attempt, cut_off: &CutOff) -> Result<Option<Reply>, String> {
    let (HostCall::Session(call), Some(index)) = (&cut_off.call, cut_off.session) else { return Ok(None) };
    let stored = lock(&attempt.sessions).record(index).cloned();
    if let Some(record) = stored {
        if record.phase != call.phase {
            return Err(format!("session {index} on record is not the one of call {}", cut_off.seq));
        }
        return Ok(Some(session::take_up(attempt, record).await));
    }
    let finished = session::take_up_log(attempt, call, (index, cut_off.at)).await.map_err(|error| describe(&error))?;
    if let Some(reply) = finished {
        attempt.warn(format!("session {index} had finished when its host died; its log was taken up"));
        return Ok(Some(reply));
    }
    let spool = session::spool(attempt, index);
    if spool.join("stdout.log").exists() {
        put_aside(&spool).map_err(|error| format!("cannot put `{}` aside: {error}", spool.display()))?;
    }
    Ok(None)
}

/// Between the number of a session and how often it was cut off.
const ASIDE: &str = "-cut-off-";

/// Renames a lost session's spool to the first free number: one step, so that each start is counted once.
fn put_aside(spool: &Path) -> std::io::Result<()> {
    let name = spool.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut number = 1;
    loop {
        let aside = spool.with_file_name(format!("{name}{ASIDE}{number}"));
        if !aside.exists() {
            return fs::rename(spool, aside);
        }
        number += 1;
    }
}

/// Books every start of a session that was cut off by what the gateway saw of it, and as a cost that nobody knows where
/// that may not be all; keeps its log. Doing it again changes nothing.
async fn book(attempt: &Attempt, cut_off: &[CutOff]) -> Result<(), String> {
    let services = &attempt.context.services;
    let lost =
        aside(&attempt.scratch).map_err(|error| format!("cannot list `{}`: {error}", attempt.scratch.display()))?;
    let mut starts = CutOffStarts::default();
    for (name, spool) in &lost {
        let exempt = is_exempt(attempt, cut_off, number_of(name));
        let entry = LedgerEntry {
            attempt: attempt.id.clone(),
            kind: LedgerKind::Spend,
            reference: name.replacen("session-", "s", 1).replace('-', " "),
            amount: None,
            billable: exempt.then_some(Micros::ZERO),
            at: services.clock.now(),
            note: Some("its host died while it ran".to_owned()),
        };
        let booked = services.store.book_cut_off(&entry, number_of(name).unwrap_or(0), exempt).await;
        let seen = booked.map_err(|error| describe(&error))?;
        starts.add(&seen, exempt);
        let folder = attempt.folder.join("sessions").join(name.replacen("session-", "", 1));
        super::spool::keep(spool, &folder, &services.redactor).await.map_err(|error| describe(&error))?;
        attempt.warn(format!("{} was cut off when its host died; {}", readable(name), what_it_cost(&seen)));
    }
    *lock(&attempt.cut_off) = starts;
    Ok(())
}

/// Says what a start that was cut off has cost.
fn what_it_cost(seen: &CallSums) -> String {
    let (calls, known) = (seen.calls, seen.known_cost);
    match (calls, seen.is_exact()) {
        (0, _) => "what that start cost is unknown".to_owned(),
        (_, true) => format!("that start cost {known}, by the {calls} request(s) that the gateway saw of it"),
        (_, false) => format!(
            "what that start cost is unknown: at least {known}, by the {calls} request(s) that the gateway saw of it, of \
             which {} had not ended",
            seen.open
        ),
    }
}

/// Tells whether a start that was cut off stays off the budget, by the model that its session was to have, or has had
/// since. What cannot be told counts.
fn is_exempt(attempt: &Attempt, cut_off: &[CutOff], session: Option<u32>) -> bool {
    let Some(session) = session else { return false };
    if let Some(exempt) = lock(&attempt.sessions).record(session).and_then(|record| record.exempt) {
        return exempt;
    }
    let call = cut_off.iter().find(|call| call.session == Some(session)).map(|cut_off| &cut_off.call);
    let Some(HostCall::Session(call)) = call else { return false };
    let Ok((model, _)) = choose_model(attempt, call) else { return false };
    accounts::is_exempt_session(&attempt.context.services.plan, attempt.context.cell(), &model.name)
}

/// Returns the session whose spool has this name.
fn number_of(name: &str) -> Option<u32> {
    name.strip_prefix("session-")?.split(ASIDE).next()?.parse().ok()
}

fn readable(name: &str) -> String {
    name.split(ASIDE).next().unwrap_or(name).replace('-', " ")
}

/// Lists the spools that were put aside, by name.
fn aside(scratch: &Path) -> std::io::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(scratch)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("session-") && name.contains(ASIDE) {
            found.push((name, entry.path()));
        }
    }
    found.sort();
    Ok(found)
}

/// Sets the workspace of a call back to what it was before. Where another call has changed it since, its work is not
/// undone: what was paid for stays.
async fn set_back(attempt: &Attempt, cut_off: &CutOff, changes: &[Change]) -> Result<(), String> {
    let later =
        |place: &Place| changes.iter().any(|change| change.seq > cut_off.seq && changed(change).contains(place));
    let places = places(&cut_off.call);
    if places.is_empty() {
        return Ok(());
    }
    let left = if places.iter().any(later) {
        places
    } else {
        let set = checkpoints::set_back(attempt, cut_off.seq, &cut_off.call).await;
        set.map_err(|error| error.full_message())?
    };
    if !left.is_empty() {
        let name = cut_off.call.function();
        attempt.warn(format!("call {}, `{name}`, is made again over what it had left when its host died", cut_off.seq));
    }
    Ok(())
}

/// What a call has changed once it is answered.
fn changed(change: &Change) -> Vec<Place> {
    match &change.call {
        HostCall::Session(call) => vec![Place::Space(call.workspace), Place::Home],
        HostCall::Merge { into, .. } => vec![Place::Space(*into)],
        HostCall::Write { workspace, .. } => vec![Place::Space(*workspace)],
        call => places(call),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::port::WorkspaceId;

    #[test]
    fn each_start_that_was_cut_off_is_put_aside_under_a_name_of_its_own() {
        let dir = tempfile::tempdir().expect("a folder");
        for _ in 0..2 {
            let spool = dir.path().join("session-3");
            fs::create_dir(&spool).expect("made");
            fs::write(spool.join("stdout.log"), "x").expect("written");
            put_aside(&spool).expect("renamed");
        }
        fs::create_dir(dir.path().join("session-4")).expect("made");
        let names: Vec<_> = aside(dir.path()).expect("listed").into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["session-3-cut-off-1", "session-3-cut-off-2"]);
        assert_eq!((readable(&names[0]), number_of(&names[0])), ("session 3".to_owned(), Some(3)));
    }

    #[test]
    fn a_session_changes_its_workspace_and_the_home() {
        let fork = WorkspaceId(2);
        let call = HostCall::Merge { from: fork, into: WorkspaceId::MAIN };
        let change = Change { seq: 1, call, answer: Answer::Unit };
        assert_eq!(changed(&change), [Place::Space(WorkspaceId::MAIN)]);
        assert!(places(&HostCall::Discard { workspace: fork }).is_empty());
    }
}
