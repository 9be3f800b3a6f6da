//! Whether a server requests the client's certificate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustls::client::ResolvesClientCert;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, SignatureScheme};

/// Set once a server has requested a certificate. With TLS 1.3, such a server decides after the client's handshake is
/// complete, so the client has to wait.
#[derive(Debug, Clone, Default)]
pub(super) struct Asked(Arc<AtomicBool>);

impl Asked {
    /// Watches connections with `config`.
    pub(super) fn watch(&self, config: &mut ClientConfig) {
        let inner = Arc::clone(&config.client_auth_cert_resolver);
        config.client_auth_cert_resolver = Arc::new(Watched { inner, asked: self.clone() });
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct Watched {
    inner: Arc<dyn ResolvesClientCert>,
    asked: Asked,
}

impl ResolvesClientCert for Watched {
    fn resolve(&self, hints: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.asked.0.store(true, Ordering::Relaxed);
        self.inner.resolve(hints, schemes)
    }

    fn has_certs(&self) -> bool {
        self.inner.has_certs()
    }
}
