//! Requests of the host itself, by whichever place the gateway listens at.

use std::net::SocketAddr;
use std::sync::Arc;

use refrain::gateway::{Gateway, Listen};

use crate::provider::{Provider, anthropic};
use crate::{REAL_KEY, Setup, grant, messages};

#[tokio::test]
async fn the_host_asks_by_any_of_its_doors_and_is_counted_like_a_session() {
    let provider = Provider::play(|_, mut wire| async move {
        wire.answer(200, "", anthropic::whole()).await;
        Some(wire)
    })
    .await;
    let dir = tempfile::tempdir().expect("a folder");
    let places = [
        Listen::Unix(dir.path().join("door")),
        Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 0))),
        Listen::Tcp(SocketAddr::from(([0, 0, 0, 0], 0))),
    ];
    for place in places {
        let (mut options, books) = Setup::new(provider.url()).options();
        options.listen = vec![place.clone()];
        let gateway = Gateway::start(options, Arc::new(books.clone())).await.expect("a gateway starts");
        let capability = gateway.open(grant(None)).expect("a capability");
        let reply = gateway.post(&capability, "/v1/messages", messages(false).into_bytes()).await.expect("an answer");
        assert_eq!((reply.status, reply.body), (200, anthropic::whole().into_bytes()), "{place}");
        let lost = gateway.post(&capability, "/v1/nothing", Vec::new()).await.expect("an answer");
        assert_eq!(lost.status, 404, "an answer that says no is an answer");
        assert_eq!((books.ended().len(), capability.totals().billed), (1, 1));
        gateway.shutdown().await;
        assert!(gateway.post(&capability, "/v1/messages", Vec::new()).await.is_err(), "{place}");
    }
    let seen = provider.seen();
    assert!(seen.len() == 3 && seen.iter().all(|seen| seen.header("x-api-key") == Some(REAL_KEY)), "{seen:?}");
}
