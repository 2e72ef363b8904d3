//! Removing what dead hosts have left.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use bollard::Docker;
use bollard::models::{ContainerSummary, ContainerSummaryStateEnum};
use bollard::query_parameters::ListContainersOptionsBuilder;

use super::deed::{self, Deed};
use super::error::failed;
use super::{container, labels, reattach};
use crate::runtime::RuntimeError;
use crate::runtime::owner::HostProcess;

/// Removes the containers below a scratch folder whose host is dead, and of other stores those that have ended. Of kept
/// environments only the processes are ended.
pub(super) async fn sweep(client: &Docker, root: &Path, kept: &[PathBuf]) -> Result<Vec<String>, RuntimeError> {
    let mut lines = Vec::new();
    for folder in deed::find(root).await? {
        lines.extend(sweep_folder(client, &folder, kept.contains(&folder)).await);
    }
    lines.extend(sweep_labelled(client, root).await?);
    Ok(lines)
}

/// Sweeps a container whose owner is known by its folder; says what was done, or why not.
async fn sweep_folder(client: &Docker, folder: &Path, kept: bool) -> Option<String> {
    let done = if kept { reattach::quiet(client, folder).await } else { reattach::clear(client, folder).await };
    done.unwrap_or_else(|error| Some(format!("could not sweep `{}`: {error}", folder.display())))
}

/// Sweeps containers of which nothing but their labels tells.
async fn sweep_labelled(client: &Docker, root: &Path) -> Result<Vec<String>, RuntimeError> {
    let filters = HashMap::from([("label".to_owned(), vec![format!("{}=1", labels::MARK)])]);
    let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
    let found = client.list_containers(Some(options)).await.map_err(|error| failed("list containers", &error))?;
    let mut lines = Vec::new();
    for summary in found {
        let Some(id) = left_over(&summary, root) else { continue };
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
    let folder = labels.get(labels::SCRATCH).map(Path::new);
    // The labels name the host that has made it; who has taken it over since is told by its folder.
    let gone = folder.and_then(Deed::read).map_or_else(|| deed::is_gone(&host), |deed| deed.is_abandoned());
    // One of another store that still runs may be taken up by that store's next host; its lease sees to its end.
    let ours = folder.is_none_or(|folder| folder.starts_with(root) && Deed::read(folder).is_none());
    let running = summary.state == Some(ContainerSummaryStateEnum::RUNNING);
    if gone && (ours || !running) { summary.id.as_deref() } else { None }
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
