//! TLS of servers in tests.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;

/// Self-signed, for localhost and 127.0.0.1, until 2126.
const CERTIFICATE: &[u8] = include_bytes!("certified/cert.der");
const KEY: &[u8] = include_bytes!("certified/key.der");

/// Settings of a server that offers `protocol` (its ALPN name).
pub(super) fn server(protocol: &[u8]) -> ServerConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().expect("versions").with_no_client_auth();
    let key = PrivatePkcs8KeyDer::from(KEY.to_vec());
    let mut config = builder.with_single_cert(vec![CERTIFICATE.to_vec().into()], key.into()).expect("a key");
    config.alpn_protocols = vec![protocol.to_vec()];
    config
}
