//! The container's main process, and the lease that it waits for.

use std::time::Duration;

/// The script.
const SCRIPT: &str = include_str!("keeper.sh");

/// Returns the argv of the main process.
pub(super) fn argv(lease: Duration) -> Vec<String> {
    let file = super::layout::lease_file();
    let seconds = lease.as_secs().max(1);
    let nap = (seconds / 30).clamp(1, 60);
    let argv = ["sh", "-c", SCRIPT, "refrain-keeper", &file, &nap.to_string(), &seconds.div_ceil(nap).to_string()];
    argv.map(str::to_owned).to_vec()
}
