//! Certificates that a load accepts (those of the system, of a file, or any), and its own.

#![allow(clippy::disallowed_methods)] // Reads the certificates that the spec names.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::spec::Spec;

/// Trust settings of `spec`, or why they cannot be loaded.
pub(super) fn config(spec: &Spec) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let verifier = Arc::new(Verifier { trust: Trust::new(spec, &provider)?, provider });
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    let (Some(cert), Some(key)) = (&spec.cert, &spec.key) else { return Ok(builder.with_no_client_auth()) };
    let name = key.display();
    let key = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|error| format!("{name}: {error}"))?;
    builder
        .with_client_auth_cert(certificates(cert)?, key)
        .map_err(|error| format!("{} and {name}: {error}", cert.display()))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The certificates of a file, at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let name = path.display();
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(path)?).collect();
    let found = found.map_err(|error| format!("{name}: {error}"))?;
    if found.is_empty() { Err(format!("no certificate in {name}")) } else { Ok(found) }
}

/// Accepts what chains up to `roots`.
fn chains(roots: RootCertStore, provider: Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>, String> {
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
    verifier.build().map_err(|error| error.to_string())
}

/// The certificates of a server that are accepted.
#[derive(Debug)]
enum Trust {
    Any,
    /// Those that chain up to the roots of this system.
    System(Arc<WebPkiServerVerifier>),
    /// Those that chain up to certificates of a file, and these themselves: a certificate that signs itself as
    /// `openssl req -x509` makes it is one of a CA, which no chain may end in.
    Listed(Arc<WebPkiServerVerifier>, Vec<CertificateDer<'static>>),
}

impl Trust {
    fn new(spec: &Spec, provider: &Arc<CryptoProvider>) -> Result<Self, String> {
        let provider = Arc::clone(provider);
        match &spec.ca {
            _ if spec.insecure => Ok(Trust::Any),
            None => chains(of_system()?, provider).map(Trust::System),
            Some(path) => {
                let certificates = certificates(path)?;
                let mut roots = RootCertStore::empty();
                for certificate in &certificates {
                    roots.add(certificate.clone()).map_err(|error| format!("{}: {error}", path.display()))?;
                }
                Ok(Trust::Listed(chains(roots, provider)?, certificates))
            }
        }
    }
}

/// True if a server shows the certificate of a CA as its own. The error of webpki has no type here.
pub(super) fn is_of_ca(error: &CertificateError) -> bool {
    matches!(error, CertificateError::Other(why) if why.to_string().contains("CaUsedAsEndEntity"))
}

fn of_system() -> Result<RootCertStore, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map_or_else(String::new, |error| format!(" ({error})"));
        return Err(format!("no root certificates on this system{why}"));
    }
    Ok(roots)
}

/// Verifies signatures in any case: the peer must hold the key of its certificate.
#[derive(Debug)]
struct Verifier {
    trust: Trust,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let (chains, listed) = match &self.trust {
            Trust::Any => return Ok(ServerCertVerified::assertion()),
            Trust::System(chains) => (chains, &[][..]),
            Trust::Listed(chains, listed) => (chains, &listed[..]),
        };
        match chains.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // Its dates are right: they are checked before.
            Err(Error::InvalidCertificate(error)) if is_of_ca(&error) && listed.contains(end_entity) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::{Spec, config};

    #[test]
    fn a_file_without_certificates_is_refused_by_name() {
        let mut spec = Spec::new("https://h/".parse().expect("a URL"));
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        spec.ca = Some(file.path().to_owned());
        let name = file.path().display();
        assert_eq!(config(&spec).err(), Some(format!("no certificate in {name}")));
        std::fs::write(file.path(), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
            .expect("written");
        assert!(config(&spec).is_err_and(|error| error.contains(&name.to_string())));
        spec.ca = Some("/nowhere/ca.pem".into());
        assert!(config(&spec).is_err_and(|error| error.starts_with("/nowhere/ca.pem: ")));
        spec.insecure = true;
        assert!(config(&spec).is_ok(), "no file is read when certificates are not checked");
        (spec.cert, spec.key) = (Some("/nowhere/cert.pem".into()), Some(file.path().to_owned()));
        assert!(config(&spec).is_err_and(|error| error.starts_with(&name.to_string())), "no key");
    }
}
