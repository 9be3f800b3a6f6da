//! Detects whether a server requests the client's certificate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustls::client::ResolvesClientCert;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, SignatureScheme};

/// A flag that is set once a server has requested a certificate. With TLS 1.3, such a server decides only after the
/// client has completed its handshake, so the client has to wait for the decision.
#[derive(Debug, Clone, Default)]
pub(super) struct CertificateRequested(Arc<AtomicBool>);

impl CertificateRequested {
    /// Watches connections that use `config`.
    pub(super) fn watch(&self, config: &mut ClientConfig) {
        let inner = Arc::clone(&config.client_auth_cert_resolver);
        config.client_auth_cert_resolver =
            Arc::new(WatchingResolver { inner, certificate_requested: self.clone() });
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct WatchingResolver {
    inner: Arc<dyn ResolvesClientCert>,
    certificate_requested: CertificateRequested,
}

impl ResolvesClientCert for WatchingResolver {
    fn resolve(&self, hints: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.certificate_requested.0.store(true, Ordering::Relaxed);
        self.inner.resolve(hints, schemes)
    }

    fn has_certs(&self) -> bool {
        self.inner.has_certs()
    }
}
