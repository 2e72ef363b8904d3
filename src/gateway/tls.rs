//! Encryption towards providers: certificates are always verified, against the system's authorities and those named.

use std::sync::Arc;

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use super::error::GatewayError;

/// What is trusted and spoken. `authorities` are certificates in PEM form that are trusted beside the system's.
pub(super) fn config(authorities: &[u8]) -> Result<ClientConfig, GatewayError> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::debug!(%error, "a certificate authority of the system cannot be read");
    }
    roots.add_parsable_certificates(found.certs);
    for certificate in CertificateDer::pem_slice_iter(authorities) {
        let certificate = certificate.map_err(|error| GatewayError::Authority { message: error.to_string() })?;
        roots.add(certificate).map_err(|error| GatewayError::Authority { message: error.to_string() })?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| GatewayError::Tls { message: error.to_string() })?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

/// Makes what connects by TCP.
pub(super) fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp
}

/// Makes what connects to providers by what `inner` makes of an address.
pub(super) fn over<C>(config: ClientConfig, inner: C) -> HttpsConnector<C> {
    HttpsConnectorBuilder::new().with_tls_config(config).https_or_http().enable_http1().wrap_connector(inner)
}
