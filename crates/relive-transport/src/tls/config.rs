//! Certificates and keys in PEM, and TLS configurations.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{CipherSuite, ClientConfig, RootCertStore, ServerConfig};

use super::care::{warn_if_readable, warn_of_dates};
use super::certificate_requested::CertificateRequested;

/// The protocol that gRPC clients request in the handshake.
const HTTP2: &[u8] = b"h2";

/// The protocol name of the bulk path. The first bytes of a connection show its protocol, so clients that request
/// neither protocol name are also served.
const BULK: &[u8] = b"relive-bulk";

/// The reason why certificates or keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A text that is not PEM, or does not contain the expected object.
    #[error("the PEM text has no {what}: {reason}")]
    Pem {
        /// The expected object.
        what: &'static str,
        /// The fault of the text.
        reason: String,
    },
    /// A file that cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The content of a file is unusable.
    #[error("{}: {source}", path.display())]
    In {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: Box<TlsError>,
    },
    /// The certificates and keys do not match or are invalid.
    #[error("cannot use the certificates: {0}")]
    Unusable(String),
    /// A name that no certificate can have.
    #[error("{name:?} is not a valid server name for a certificate")]
    Name {
        /// The name.
        name: String,
    },
    /// The system's list of authorities is unavailable.
    #[error("the system has no list of certificate authorities ({0}); give one with `tls_ca`")]
    NoAuthorities(String),
}

impl TlsError {
    fn unusable(error: impl fmt::Display) -> Self {
        Self::Unusable(error.to_string())
    }
}

/// A chain of certificates, with the owner's certificate first, and the private key, in PEM.
#[derive(Clone)]
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: Arc<PrivateKeyDer<'static>>,
}

impl Identity {
    /// Parses the chain and the key.
    ///
    /// # Errors
    /// If the text has no certificate or no private key.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let read = PrivateKeyDer::from_pem_slice(key);
        let key =
            read.map_err(|error| TlsError::Pem { what: "private key", reason: format!("{error:?}") })?;
        Ok(Self { chain: certificates(chain, "certificate")?, key: Arc::new(key) })
    }

    /// Reads the chain and the key from files.
    ///
    /// # Errors
    /// If a file cannot be read, or does not contain what is expected.
    pub fn from_files(chain: impl AsRef<Path>, key: impl AsRef<Path>) -> Result<Self, TlsError> {
        let (chain, key) = (chain.as_ref(), key.as_ref());
        let (chain_pem, key_pem) = (file(chain)?, file(key)?);
        let path = if certificates(&chain_pem, "certificate").is_err() { chain } else { key };
        Self::from_pem(&chain_pem, &key_pem).inspect(|_| warn_if_readable(key)).map_err(in_file(path))
    }
}

/// Does not print the key.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("certificates", &self.chain.len()).finish_non_exhaustive()
    }
}

/// The TLS configuration of a server: its certificate, and whether clients need a certificate.
#[derive(Debug, Clone)]
pub struct ServerTls(pub(super) Arc<ServerConfig>);

impl ServerTls {
    /// Creates the configuration of a server with `identity`. With `client_authorities` (PEM), clients need a
    /// certificate from one of these authorities.
    ///
    /// # Errors
    /// If the key and the certificate do not match, or the text contains no authority.
    pub fn new(identity: Identity, client_authorities: Option<&[u8]>) -> Result<Self, TlsError> {
        let provider = provider();
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::unusable)?;
        let builder = match client_authorities {
            None => builder.with_no_client_auth(),
            Some(pem) => {
                let roots = Arc::new(authorities(pem)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
                builder.with_client_cert_verifier(verifier.map_err(TlsError::unusable)?)
            }
        };
        let Identity { chain, key } = identity;
        warn_of_dates(&chain);
        let mut config = builder.with_single_cert(chain, key.clone_key()).map_err(TlsError::unusable)?;
        config.alpn_protocols = vec![HTTP2.to_vec(), BULK.to_vec()];
        Ok(Self(Arc::new(config)))
    }

    /// Like [`new`](Self::new), but reads the clients' certificate authorities, if any, from a file.
    ///
    /// # Errors
    /// The errors of [`new`](Self::new). An error is also returned if the file cannot be read.
    pub fn with_files(identity: Identity, client_authorities: Option<&Path>) -> Result<Self, TlsError> {
        let Some(path) = client_authorities else { return Self::new(identity, None) };
        Self::new(identity, Some(&file(path)?)).map_err(in_file(path))
    }
}

/// The TLS configuration of a client: the authorities that it trusts, and its certificate.
#[derive(Debug, Clone)]
pub struct ClientTls {
    pub(super) http2: Arc<ClientConfig>,
    pub(super) bulk: Arc<ClientConfig>,
    pub(super) certificate_requested: CertificateRequested,
    /// The name that the server's certificate must have, if that name is not in the address.
    name: Option<ServerName<'static>>,
}

impl ClientTls {
    /// Creates the configuration of a client that trusts `authorities_pem` (by default, the system's list), and
    /// presents `identity` to servers that request it.
    ///
    /// # Errors
    /// If the text contains no authority, the system has no list, or the key and the certificate do not match.
    pub fn new(authorities_pem: Option<&[u8]>, identity: Option<Identity>) -> Result<Self, TlsError> {
        let roots = match authorities_pem {
            Some(pem) => authorities(pem)?,
            None => system_authorities()?,
        };
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(TlsError::unusable)?
            .with_root_certificates(roots);
        let mut http2 = match identity {
            None => builder.with_no_client_auth(),
            Some(Identity { chain, key }) => {
                builder.with_client_auth_cert(chain, key.clone_key()).map_err(TlsError::unusable)?
            }
        };
        let certificate_requested = CertificateRequested::default();
        certificate_requested.watch(&mut http2);
        let mut bulk = http2.clone();
        http2.alpn_protocols = vec![HTTP2.to_vec()];
        bulk.alpn_protocols = vec![BULK.to_vec()];
        Ok(Self { http2: Arc::new(http2), bulk: Arc::new(bulk), certificate_requested, name: None })
    }

    /// Like [`new`](Self::new), but with the authorities in a file.
    ///
    /// # Errors
    /// The errors of [`new`](Self::new). An error is also returned if the file cannot be read.
    pub fn with_files(authorities: Option<&Path>, identity: Option<Identity>) -> Result<Self, TlsError> {
        let Some(path) = authorities else { return Self::new(None, identity) };
        Self::new(Some(&file(path)?), identity).map_err(in_file(path))
    }

    /// Expects a certificate for `name` instead of the host in the address.
    ///
    /// # Errors
    /// If no certificate can have such a name.
    pub fn server_name(mut self, name: &str) -> Result<Self, TlsError> {
        self.name = Some(server_name(name)?);
        Ok(self)
    }

    /// Returns the name that the certificate of the server at `host` must have.
    ///
    /// # Errors
    /// If no certificate can have such a name.
    pub(super) fn name_for(&self, host: &str) -> Result<ServerName<'static>, TlsError> {
        self.name.clone().map_or_else(|| server_name(host), Ok)
    }
}

fn file(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::File { path: path.to_owned(), source })
}

fn in_file(path: &Path) -> impl FnOnce(TlsError) -> TlsError {
    |source| TlsError::In { path: path.to_owned(), source: Box::new(source) }
}

fn server_name(name: &str) -> Result<ServerName<'static>, TlsError> {
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    ServerName::try_from(bare.to_owned()).map_err(|_| TlsError::Name { name: name.to_owned() })
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    let mut provider = rustls::crypto::ring::default_provider();
    // Prefers the suite that TLS 1.3 makes mandatory: 128-bit keys are secure and cost a quarter less than 256-bit
    // keys.
    provider.cipher_suites.sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    Arc::new(provider)
}

fn certificates(pem: &[u8], what: &'static str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match read {
        Ok(found) if found.is_empty() => Err(TlsError::Pem { what, reason: "there is none".to_owned() }),
        Ok(found) => Ok(found),
        Err(error) => Err(TlsError::Pem { what, reason: format!("{error:?}") }),
    }
}

fn authorities(pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem, "authority's certificate")? {
        roots.add(certificate).map_err(TlsError::unusable)?;
    }
    Ok(roots)
}

fn system_authorities() -> Result<RootCertStore, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map_or_else(|| "it is empty".to_owned(), ToString::to_string);
        return Err(TlsError::NoAuthorities(why));
    }
    Ok(roots)
}
