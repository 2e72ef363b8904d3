//! Removing what dead hosts have left.

use std::collections::HashMap;
use std::path::Path;

use bollard::Docker;
use bollard::models::{ContainerSummary, ContainerSummaryStateEnum};
use bollard::query_parameters::ListContainersOptionsBuilder;

use super::error::failed;
use super::{container, labels};
use crate::runtime::RuntimeError;
use crate::runtime::owner::{HostProcess, Life};

/// Removes the containers below a scratch folder whose host is dead, and of other stores those that have ended.
pub(super) async fn sweep(client: &Docker, root: &Path) -> Result<Vec<String>, RuntimeError> {
    let filters = HashMap::from([("label".to_owned(), vec![format!("{}=1", labels::MARK)])]);
    let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
    let found = client.list_containers(Some(options)).await.map_err(|error| failed("list containers", &error))?;
    let root = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
    let mut lines = Vec::new();
    for summary in found {
        let Some(id) = left_over(&summary, &root) else { continue };
        lines.push(match container::remove(client, id).await {
            Ok(()) => format!("removed the container {} of a host that is gone", shown(&summary, id)),
            Err(error) => format!("could not remove the container {}: {error}", shown(&summary, id)),
        });
    }
    Ok(lines)
}

fn shown(summary: &ContainerSummary, id: &str) -> String {
    let name = summary.names.iter().flatten().next();
    name.map_or_else(|| id.chars().take(12).collect(), |name| format!("`{}`", name.trim_start_matches('/')))
}

/// Returns the id of a container that nobody owns any more.
fn left_over<'a>(summary: &'a ContainerSummary, root: &Path) -> Option<&'a str> {
    let labels = summary.labels.as_ref()?;
    let host: HostProcess = serde_json::from_str(labels.get(labels::HOST)?).ok()?;
    // One of another store that still runs may be taken up by that store's next host; its lease sees to its end.
    let ours = labels.get(labels::SCRATCH).is_none_or(|scratch| Path::new(scratch).starts_with(root));
    let running = summary.state == Some(ContainerSummaryStateEnum::RUNNING);
    match host.life() {
        Life::Dead | Life::BeforeBoot if ours || !running => summary.id.as_deref(),
        Life::Alive | Life::Unknown | Life::Dead | Life::BeforeBoot => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(scratch: &str, host: &str, state: ContainerSummaryStateEnum) -> ContainerSummary {
        let labels = [(labels::SCRATCH, scratch), (labels::HOST, host)];
        ContainerSummary {
            id: Some("id".to_owned()),
            labels: Some(labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into()),
            state: Some(state),
            ..ContainerSummary::default()
        }
    }

    #[test]
    fn what_has_a_living_or_an_unknown_owner_stays() {
        let own = serde_json::to_string(&HostProcess::current()).expect("text");
        let dead = own.replace("\"started\":", "\"started\":9");
        let elsewhere = own.replace("\"machine\":\"", "\"machine\":\"another");
        let running = ContainerSummaryStateEnum::RUNNING;
        let swept = |scratch, host: &str, state| left_over(&summary(scratch, host, state), Path::new("/s")).is_some();
        assert!(!swept("/s/run/agent", &own, running));
        assert!(swept("/s/run/agent", &dead, running));
        assert!(!swept("/s/run/agent", &elsewhere, running));
        assert!(!swept("/another/run/agent", &dead, running));
        assert!(swept("/another/run/agent", &dead, ContainerSummaryStateEnum::EXITED));
        assert!(!swept("/s-not/run", &dead, running));
        assert!(!swept("/s/run", "not of our making", running));
    }
}
