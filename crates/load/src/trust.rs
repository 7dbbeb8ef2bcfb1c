//! Certificates that a load accepts: those of the system, of a file, or any.

#![allow(clippy::disallowed_methods)] // Reads the certificates that the spec names.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::spec::Spec;

/// Trust settings of `spec`, or why they cannot be loaded.
pub(super) fn config(spec: &Spec) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    if spec.insecure {
        let anyone = Arc::new(Anyone(provider));
        return Ok(builder.dangerous().with_custom_certificate_verifier(anyone).with_no_client_auth());
    }
    let roots = match &spec.ca {
        Some(path) => of_file(path)?,
        None => of_system()?,
    };
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn of_file(path: &Path) -> Result<RootCertStore, String> {
    let name = path.display();
    let text = std::fs::read(path).map_err(|error| format!("{name}: {error}"))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|error| format!("{name}: {error}"))?;
        roots.add(certificate).map_err(|error| format!("{name}: {error}"))?;
    }
    if roots.is_empty() { Err(format!("no certificate in {name}")) } else { Ok(roots) }
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

/// Accepts any certificate, but still verifies signatures: the peer must hold the key.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
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
    }
}
