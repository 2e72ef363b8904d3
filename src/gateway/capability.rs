//! What a session holds: a token in the place of a key, and a base URL of its own.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::options::Totals;
use super::server::Core;
use super::session::Session;

/// How long a session that is closed is waited for: its programs are gone, and their connections should be too.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long the recorder is waited for once nothing passes any more: a disk may be busy, but not for ever.
const RECORDING: Duration = Duration::from_secs(60);

/// Leave of one session to make requests. It ends when closed, and at once when dropped.
pub struct Capability {
    core: Arc<Core>,
    session: Arc<Session>,
    path: String,
}

impl Capability {
    pub(super) fn new(core: Arc<Core>, session: Arc<Session>) -> Self {
        let path = format!("/session/{}", session.id);
        Self { core, session, path }
    }

    /// Returns the secret that stands in the place of an API key.
    #[must_use]
    pub fn token(&self) -> &str {
        self.session.token.expose()
    }

    /// Returns the path of the session's base URL, to be put behind the address: `/session/<id>`. No secret.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns what the session has spent so far.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.session.totals()
    }

    /// Ends the session's leave and returns what it spent.
    ///
    /// Exchanges that are under way get a few seconds to end by themselves and are then cut. Returns when all of them are
    /// recorded, or the recorder has taken a minute; [`Totals::under_way`] then says how many are not.
    pub async fn close(self) -> Totals {
        self.core.revoke(&self.session);
        tokio::select! {
            () = self.session.idle() => {}
            () = self.core.options.clock.sleep(PATIENCE) => {
                self.session.cut.cancel();
                tokio::select! {
                    () = self.session.idle() => {}
                    () = self.core.options.clock.sleep(RECORDING) => {
                        tracing::error!(session = self.session.id, "exchanges of a session that ended are not recorded");
                    }
                }
            }
        }
        self.session.totals()
    }
}

impl Drop for Capability {
    fn drop(&mut self) {
        self.core.revoke(&self.session);
        self.session.cut.cancel();
    }
}

impl fmt::Debug for Capability {
    /// Never shows the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capability").field("path", &self.path).finish_non_exhaustive()
    }
}
