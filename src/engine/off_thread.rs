//! Work with files that may take long.

use std::io;

/// Does it on a thread of its own. On the threads of tasks it would hold up what streams through the gateway, limits and
/// cancelling. Work that nobody waits for any more is done all the same.
pub(crate) async fn off_thread<T, F>(work: F) -> io::Result<T>
where
    T: Send + 'static,
    F: FnOnce() -> io::Result<T> + Send + 'static,
{
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}
