//! Connections to providers are encrypted, and providers prove who they are.
//!
//! `tls/` holds an authority whose key was thrown away, and a server's certificate for 127.0.0.1 that it signed.

use std::net::SocketAddr;
use std::sync::Arc;

use refrain::domain::ExchangeEnd;
use refrain::gateway::{Gateway, GatewayOptions, Listen};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::books::Books;
use crate::client::Request;
use crate::{Setup, grant, messages};

pub(crate) const AUTHORITY: &[u8] = include_bytes!("tls/ca.pem");
const CERTIFICATE: &[u8] = include_bytes!("tls/server.pem");
const KEY: &[u8] = include_bytes!("tls/server.key");

/// A provider that answers everything with the same few bytes, encrypted. It listens on all of the loopback.
pub(crate) async fn provider() -> (SocketAddr, JoinSet<()>) {
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(CERTIFICATE).expect("a certificate")],
            PrivateKeyDer::from_pem_slice(KEY).expect("a key"),
        )
        .expect("they fit");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("0.0.0.0:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            // A client that does not trust the certificate goes away here.
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut bytes = Vec::new();
            while !bytes.ends_with(b"}") {
                assert!(stream.read_buf(&mut bytes).await.expect("reads") > 0);
            }
            let answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
            stream.write_all(answer).await.expect("writes");
            stream.shutdown().await.expect("ends");
        }
    });
    (address, tasks)
}

/// Asks through a gateway that trusts these authorities.
async fn ask(base_url: String, authorities: &[u8]) -> (u16, String, Books) {
    ask_as(Setup::new(base_url), authorities).await
}

/// The same with a setup.
pub(crate) async fn ask_as(setup: Setup, authorities: &[u8]) -> (u16, String, Books) {
    let Setup { provider, stalls, bounds, proxies, clock, books, .. } = setup;
    let options = GatewayOptions {
        listen: vec![Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)))],
        providers: vec![provider],
        prices: refrain::budget::PriceTable::default(),
        redactor: Arc::default(),
        clock,
        stalls,
        bounds,
        proxies,
        bodies: None,
    };
    let gateway = Gateway::start_trusting(options, Arc::new(books.clone()), authorities).await.expect("a gateway");
    let capability = gateway.open(grant(None)).expect("a session");
    let [Listen::Tcp(address)] = gateway.addresses() else { panic!("{gateway:?}") };
    let request = Request::post(*address, &format!("{}/v1/messages", capability.path()));
    let (status, body) = request.header("x-api-key", capability.token()).body(messages(false)).text().await;
    (status, body, books)
}

#[tokio::test]
async fn a_provider_with_a_certificate_of_a_trusted_authority_is_asked() {
    let (address, _tasks) = provider().await;
    let (status, body, _) = ask(format!("https://127.0.0.1:{}", address.port()), AUTHORITY).await;
    assert_eq!((status, body.as_str()), (200, "{}"));
}

#[tokio::test]
async fn a_provider_that_nobody_vouches_for_gets_nothing() {
    let (address, _tasks) = provider().await;
    let (status, body, books) = ask(format!("https://127.0.0.1:{}", address.port()), b"").await;
    assert_eq!(status, 502);
    assert!(body.contains("certificate"), "{body}");
    assert_eq!(books.ended()[0].end, ExchangeEnd::Unreachable);
}

#[tokio::test]
async fn a_certificate_of_another_host_is_not_enough() {
    let (address, _tasks) = provider().await;
    let (status, body, _) = ask(format!("https://127.0.0.2:{}", address.port()), AUTHORITY).await;
    assert_eq!(status, 502);
    assert!(body.contains("certificate"), "{body}");
}
