//! Proxies between the gateway and its providers.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use refrain::domain::{ExchangeEnd, Usage};
use refrain::gateway::{Gateway, GatewayError, Proxies, ProxyChoice};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::provider::{Provider, anthropic};
use crate::{Bench, Setup, messages, tls};

/// A proxy that connects everybody to one place, whatever they ask for, and remembers what that was.
struct Proxy {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    _tasks: JoinSet<()>,
}

impl Proxy {
    async fn to(place: SocketAddr, answer: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (mut client, _) = listener.accept().await.expect("a connection");
                let log = Arc::clone(&log);
                connections.spawn(async move {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        if client.read_buf(&mut head).await.is_ok_and(|count| count == 0) {
                            return;
                        }
                    }
                    log.lock().unwrap().push(String::from_utf8(head).expect("text"));
                    client.write_all(answer.as_bytes()).await.expect("writes");
                    if answer.contains(" 200 ") {
                        let mut provider = TcpStream::connect(place).await.expect("connects");
                        // Either side may go away at any time.
                        let _ = tokio::io::copy_bidirectional(&mut client, &mut provider).await;
                    }
                });
            }
        });
        Self { address, asked, _tasks: tasks }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

const CONNECTED: &str = "HTTP/1.1 200 Connected\r\n\r\n";

async fn answers() -> Provider {
    Provider::play(|_, mut wire| async move {
        wire.answer(200, "", anthropic::whole()).await;
        Some(wire)
    })
    .await
}

fn place_of(provider: &Provider) -> SocketAddr {
    provider.url().trim_start_matches("http://").parse().expect("an address")
}

async fn asks(bench: &Bench) -> u16 {
    bench.post("/v1/messages").body(messages(false)).text().await.0
}

#[tokio::test]
async fn what_is_encrypted_passes_a_proxy_that_cannot_read_it() {
    let (provider, _running) = tls::provider().await;
    let place = SocketAddr::from(([127, 0, 0, 1], provider.port()));
    let proxy = Proxy::to(place, CONNECTED).await;
    let mut setup = Setup::new(format!("https://{place}"));
    setup.provider.proxy = ProxyChoice::Through(proxy.url());
    let (status, body, books) = tls::ask_as(setup, tls::AUTHORITY).await;
    assert_eq!((status, body.as_str()), (200, "{}"), "{:?}", books.ended());
    let [asked] = proxy.asked().try_into().expect("one connection");
    assert!(asked.starts_with(&format!("CONNECT {place} HTTP/1.1\r\n")), "{asked}");
}

#[tokio::test]
async fn the_surroundings_name_the_proxy_and_it_finds_the_provider() {
    let provider = answers().await;
    let proxy = Proxy::to(place_of(&provider), CONNECTED).await;
    let mut setup = Setup::new("http://api.provider.invalid/base".to_owned());
    setup.proxies.http = Some(format!("http://me:secret@{}", proxy.address));
    let bench = setup.start().await;
    assert_eq!((asks(&bench).await, asks(&bench).await), (200, 200));
    let [asked] = proxy.asked().try_into().expect("one connection for both");
    assert!(asked.starts_with("CONNECT api.provider.invalid:80 HTTP/1.1\r\n"), "{asked}");
    assert!(asked.to_ascii_lowercase().contains("proxy-authorization: basic bwu6c2vjcmv0\r\n"), "{asked}");
    let seen = provider.seen().remove(0);
    assert_eq!((seen.line(), seen.header("host")), ("POST /base/v1/messages HTTP/1.1", Some("api.provider.invalid")));
    assert_eq!(seen.header("proxy-authorization"), None, "the provider learns nothing of it");
}

#[tokio::test]
async fn a_proxy_that_is_not_wanted_is_not_asked() {
    let provider = answers().await;
    let proxy = Proxy::to(place_of(&provider), CONNECTED).await;
    let named = Proxies { http: Some(proxy.url()), https: None, except: None };
    // Providers of this machine, and those that are reached directly.
    for choice in [ProxyChoice::Surroundings, ProxyChoice::Direct] {
        let mut setup = Setup::new(provider.url());
        (setup.proxies, setup.provider.proxy) = (named.clone(), choice);
        assert_eq!(asks(&setup.start().await).await, 200);
    }
    let mut setup = Setup::new("http://api.provider.invalid".to_owned());
    setup.proxies = Proxies { except: Some(".provider.invalid".to_owned()), ..named };
    assert_eq!(asks(&setup.start().await).await, 502, "nobody has that name");
    assert_eq!(proxy.asked().len(), 0);
}

#[tokio::test]
async fn a_proxy_that_refuses_costs_nothing_and_is_named() {
    let provider = answers().await;
    let refusal = "HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n";
    let proxy = Proxy::to(place_of(&provider), refusal).await;
    let mut setup = Setup::new(provider.url());
    setup.provider.proxy = ProxyChoice::Through(format!("http://me:secret@{}", proxy.address));
    let bench = setup.start().await;
    let (status, body) = bench.post("/v1/messages").body(messages(false)).text().await;
    assert_eq!(status, 502);
    let expected = format!("through the proxy {}", proxy.url());
    assert!(body.contains(&expected) && body.contains("authorization required"), "{body}");
    let exchange = bench.books.wait(1).await.remove(0);
    assert_eq!((exchange.end, exchange.usage), (ExchangeEnd::Unreachable, Usage::ZERO));
    assert!(!exchange.message.expect("a message").contains("secret"));
    assert_eq!(provider.seen().len(), 0);
}

#[tokio::test]
async fn a_proxy_that_is_none_is_told_at_the_start() {
    let mut setup = Setup::new("https://api.provider.invalid".to_owned());
    setup.proxies.https = Some("socks5://me:secret@proxy:1080".to_owned());
    let (options, books) = setup.options();
    let error = Gateway::start(options, Arc::new(books)).await.expect_err("no proxy");
    assert!(matches!(error, GatewayError::Proxy { .. }), "{error}");
    let expected = "the proxy `socks5://proxy:1080` on the way to provider `scripted`";
    assert!(error.to_string().starts_with(expected), "{error}");
}
