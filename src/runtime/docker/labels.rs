//! Names and labels: whose a container is, told from outside and after a crash.

use std::collections::HashMap;

use crate::runtime::EnvironmentSpec;
use crate::runtime::owner::HostProcess;

/// Marks every container of Refrain, with the version of these labels.
pub(super) const MARK: &str = "refrain.schema";
/// The environment's scratch folder on the host, which tells whose store it belongs to.
pub(super) const SCRATCH: &str = "refrain.scratch";
/// The host process, as JSON.
pub(super) const HOST: &str = "refrain.host";

/// On an image that was prepared here: the version of our layer in it.
pub(super) const LAYER: &str = "refrain.layer";
/// On an image that was prepared here: the digest of the image that it was made from.
pub(super) const BASE: &str = "refrain.base";
/// On an image that was prepared here: what the installed program said of its version.
pub(super) const VERSION: &str = "refrain.version";

/// Returns the labels of an environment's container.
pub(super) fn of(spec: &EnvironmentSpec, host: &HostProcess) -> HashMap<String, String> {
    let text = |name: &str, value: String| (name.to_owned(), value);
    HashMap::from([
        text(MARK, "1".to_owned()),
        text("refrain.run", spec.attempt.run.to_string()),
        text("refrain.cell", spec.attempt.cell.to_string()),
        text("refrain.attempt", spec.attempt.number.to_string()),
        text("refrain.purpose", spec.purpose.to_owned()),
        text(SCRATCH, spec.scratch.display().to_string()),
        text(HOST, serde_json::to_string(host).unwrap_or_default()),
    ])
}

/// Returns the labels of a container that is created only to look into its image.
pub(super) fn short_lived() -> HashMap<String, String> {
    let host = serde_json::to_string(&HostProcess::current()).unwrap_or_default();
    HashMap::from([(MARK.to_owned(), "1".to_owned()), (HOST.to_owned(), host)])
}

/// Returns a name that no other container has.
pub(super) fn name(spec: &EnvironmentSpec) -> String {
    let unique = uuid::Uuid::new_v4().simple().to_string();
    format!("refrain-{}-{}-{}", spec.attempt.run, spec.purpose, &unique[..12])
}
