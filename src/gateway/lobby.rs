//! Who is connected: how many clients there are, and whose they are.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::options::Bounds;
use super::session::Session;

/// All connections. A client that holds many keeps neither other sessions nor the host's files from those that need them.
#[derive(Debug)]
pub(super) struct Lobby {
    most: usize,
    per_session: usize,
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    seats: usize,
    next: u64,
    /// Those who have shown no token yet, the oldest first.
    strangers: BTreeMap<u64, CancellationToken>,
}

/// The place of one connection. It is free again when dropped.
pub(super) struct Seat {
    lobby: Arc<Lobby>,
    number: u64,
    /// Somebody else needs the place.
    leaves: CancellationToken,
    session: watch::Sender<Option<Arc<Session>>>,
}

impl Lobby {
    pub(super) fn new(bounds: &Bounds) -> Self {
        let (most, per_session) = (bounds.connections.max(1), bounds.connections_per_session.max(1));
        Self { most, per_session, inside: Mutex::default() }
    }

    /// Returns how many connections of one session there may be.
    pub(super) fn per_session(&self) -> usize {
        self.per_session
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place. Where none is free, the oldest of those who have shown no token leaves; `None` where there is none either.
    pub(super) fn enter(self: &Arc<Self>) -> Option<Seat> {
        let leaves = CancellationToken::new();
        let mut inside = self.inside();
        if inside.seats >= self.most {
            let (_, oldest) = inside.strangers.pop_first()?;
            oldest.cancel();
        }
        inside.seats += 1;
        let number = inside.next;
        inside.next += 1;
        inside.strangers.insert(number, leaves.clone());
        drop(inside);
        Some(Seat { lobby: Arc::clone(self), number, leaves, session: watch::Sender::new(None) })
    }
}

impl Seat {
    /// The client has shown a session's token; `false` where that session has as many connections as it may.
    pub(super) fn belongs_to(&self, session: &Arc<Session>) -> bool {
        if self.session.borrow().as_ref().is_some_and(|known| Arc::ptr_eq(known, session)) {
            return true;
        }
        if !session.connect(self.lobby.per_session) {
            return false;
        }
        self.lobby.inside().strangers.remove(&self.number);
        if let Some(before) = self.session.send_replace(Some(Arc::clone(session))) {
            before.disconnect();
        }
        true
    }

    /// Waits until somebody else needs the place.
    pub(super) async fn needed(&self) {
        self.leaves.cancelled().await;
    }

    /// Waits until the session was cut.
    pub(super) async fn over(&self) {
        let mut sessions = self.session.subscribe();
        loop {
            let cut = sessions.borrow_and_update().as_ref().map(|session| session.cut.clone());
            let cut = async move {
                match cut {
                    Some(cut) => cut.cancelled_owned().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = cut => return,
                // The sender lives in `self`.
                _ = sessions.changed() => {}
            }
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut inside = self.lobby.inside();
        inside.seats = inside.seats.saturating_sub(1);
        inside.strangers.remove(&self.number);
        drop(inside);
        if let Some(session) = self.session.send_replace(None) {
            session.disconnect();
        }
    }
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat").field("number", &self.number).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lobby(connections: usize) -> Arc<Lobby> {
        Arc::new(Lobby::new(&Bounds { connections, ..Bounds::default() }))
    }

    #[test]
    fn the_oldest_stranger_leaves_for_a_newcomer() {
        let lobby = lobby(2);
        let (first, second) = (lobby.enter().expect("a seat"), lobby.enter().expect("a seat"));
        let third = lobby.enter().expect("a seat");
        assert!(first.leaves.is_cancelled() && !second.leaves.is_cancelled() && !third.leaves.is_cancelled());
        // Its place is the third's; the next newcomer needs that of the second.
        drop(first);
        let fourth = lobby.enter().expect("a seat");
        assert!(second.leaves.is_cancelled() && !third.leaves.is_cancelled());
        drop((second, third, fourth));
        let inside = lobby.inside();
        assert_eq!((inside.seats, inside.strangers.len()), (0, 0));
    }
}
