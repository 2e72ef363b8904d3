//! The gateway: one meter between harnesses and model providers.
//!
//! No agent program reports all that it spends, and a killed one reports nothing. So its requests pass a proxy inside the
//! host. Each session holds a **capability**: an unguessable token in the place of its API key, and a base URL of its
//! own. The token says on whose account a request goes; the provider's real key is put in here and never enters an
//! environment. Bytes pass as they come: neither requests nor answers are encoded anew. What passes is counted, and an
//! exchange is on the books before its last event reaches the client.
//!
//! A [`Gateway`] is told what it needs by [`GatewayOptions`], hands out a [`Capability`] for each [`Grant`] and tells each
//! exchange to a [`Recorder`]. It knows neither harnesses nor the store.

mod admit;
mod answer;
mod capability;
mod capture;
pub mod cassette;
mod client;
mod entry;
mod error;
mod forward;
mod headers;
mod listen;
mod lobby;
mod options;
mod pace;
mod pause;
pub mod protocol;
mod proxies;
mod recorder;
mod reply;
mod serve;
mod server;
mod session;
mod silence;
mod source;
mod taping;
mod target;
mod tls;
mod upload;
mod upstream;

pub use crate::domain::Key;
pub use capability::Capability;
pub use client::{PostError, Reply};
pub use error::GatewayError;
pub use options::{Bounds, GatewayOptions, Grant, Guard, Listen, Provider, Stalls, Totals};
pub use proxies::{Proxies, ProxyChoice};
pub use recorder::{Bodies, Recorder, RecorderError};
pub use server::Gateway;
