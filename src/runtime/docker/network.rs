//! Networks of containers.

use std::collections::HashMap;

use bollard::Docker;
use bollard::models::NetworkCreateRequest;
use bollard::query_parameters::ListNetworksOptionsBuilder;
use tokio::sync::OnceCell;

use super::error::failed;
use super::labels;
use crate::domain::Network;
use crate::runtime::RuntimeError;

/// The network that reaches nothing but the daemon's own machine.
const INTERNAL: &str = "refrain-internal";

/// The networks that a runtime has made ready.
#[derive(Debug, Default)]
pub(super) struct Networks {
    internal: OnceCell<String>,
}

impl Networks {
    /// Returns what a container's network mode must be.
    pub(super) async fn mode(&self, client: &Docker, network: Network) -> Result<String, RuntimeError> {
        match network {
            Network::None => Ok("none".to_owned()),
            Network::Bridge => Ok("bridge".to_owned()),
            Network::GatewayOnly => self.internal.get_or_try_init(|| internal(client)).await.cloned(),
        }
    }
}

/// Returns the id of the internal network, which is made at its first use and stays: it is one for all runs, because
/// the addresses of bridges are few.
async fn internal(client: &Docker) -> Result<String, RuntimeError> {
    if let Some(id) = oldest(client).await? {
        return Ok(id);
    }
    let request = NetworkCreateRequest {
        name: INTERNAL.to_owned(),
        driver: Some("bridge".to_owned()),
        internal: Some(true),
        // Containers of different cells must not see each other.
        options: Some(HashMap::from([("com.docker.network.bridge.enable_icc".to_owned(), "false".to_owned())])),
        labels: Some(HashMap::from([(labels::MARK.to_owned(), "1".to_owned())])),
        ..NetworkCreateRequest::default()
    };
    let made = client.create_network(request).await;
    match (oldest(client).await?, made) {
        // Of two hosts that make one at the same time both take the older one.
        (Some(id), _) => Ok(id),
        (None, Ok(made)) => Ok(made.id),
        (None, Err(error)) => Err(failed("create a network", &error)),
    }
}

async fn oldest(client: &Docker) -> Result<Option<String>, RuntimeError> {
    let filters = HashMap::from([("name".to_owned(), vec![INTERNAL.to_owned()])]);
    let options = ListNetworksOptionsBuilder::new().filters(&filters).build();
    let mut found = client.list_networks(Some(options)).await.map_err(|error| failed("list networks", &error))?;
    // The filter takes parts of names too.
    found.retain(|network| network.name.as_deref() == Some(INTERNAL) && network.internal == Some(true));
    found.sort_by(|a, b| (&a.created, &a.id).cmp(&(&b.created, &b.id)));
    Ok(found.into_iter().next().and_then(|network| network.id))
}
