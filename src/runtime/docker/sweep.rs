//! Removing what dead hosts have left.

use std::collections::HashMap;
use std::path::Path;

use bollard::Docker;
use bollard::models::ContainerSummary;
use bollard::query_parameters::ListContainersOptionsBuilder;

use super::error::failed;
use super::{container, labels};
use crate::runtime::RuntimeError;
use crate::runtime::owner::{HostProcess, Life};

/// Removes the containers below a scratch folder whose host is dead.
pub(super) async fn sweep(client: &Docker, root: &Path) -> Result<Vec<String>, RuntimeError> {
    let filters = HashMap::from([("label".to_owned(), vec![format!("{}=1", labels::MARK)])]);
    let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
    let found = client.list_containers(Some(options)).await.map_err(|error| failed("list containers", &error))?;
    let mut lines = Vec::new();
    for summary in found {
        let Some(id) = left_over(&summary, root) else { continue };
        lines.push(match container::remove(client, id).await {
            Ok(()) => format!("removed the container {} of a host that is gone", &id[..id.len().min(12)]),
            Err(error) => format!("could not remove the container {id}: {error}"),
        });
    }
    Ok(lines)
}

/// Returns the id of a container that nobody owns any more.
fn left_over<'a>(summary: &'a ContainerSummary, root: &Path) -> Option<&'a str> {
    let labels = summary.labels.as_ref()?;
    if !Path::new(labels.get(labels::SCRATCH)?).starts_with(root) {
        return None;
    }
    let host: HostProcess = serde_json::from_str(labels.get(labels::HOST)?).ok()?;
    match host.life() {
        Life::Dead | Life::BeforeBoot => summary.id.as_deref(),
        Life::Alive | Life::Unknown => None,
    }
}
