//! TLS and tokens from Python.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use relive_client::ClientOptions;
use relive_client::tls::{ClientTls, Identity, TlsError};
use relive_host::Endpoint;
use relive_server::ServerOptions;
use relive_server::access::Role;
use relive_server::tls::ServerTls;

use super::address::address;

/// The credentials that a server requires of its clients.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct ServerSecurity {
    tls: Option<ServerCertificates>,
    token_file: Option<PathBuf>,
    token: Option<String>,
    open_port: Option<u16>,
    open_role: String,
    max_connections: Option<usize>,
    max_bytes_in_flight: Option<u64>,
}

/// Files in PEM.
#[derive(FromPyObject)]
pub(crate) struct ServerCertificates {
    cert: PathBuf,
    key: PathBuf,
    client_ca: Option<PathBuf>,
}

impl ServerSecurity {
    /// Returns `options` with the given bounds.
    pub(crate) fn bound(&self, options: ServerOptions) -> ServerOptions {
        let options = match self.max_connections {
            Some(connections) => options.max_connections(connections),
            None => options,
        };
        match self.max_bytes_in_flight {
            Some(bytes) => options.max_bytes_in_flight(bytes),
            None => options,
        }
    }

    /// Returns an endpoint at `port` of `host`.
    pub(crate) fn endpoint(self, host: Option<&str>, port: u16) -> PyResult<Endpoint> {
        let mut endpoint = Endpoint::new(address(host, port));
        if let Some(ServerCertificates { cert, key, client_ca }) = self.tls {
            endpoint = endpoint.tls_files(cert, key, client_ca);
        }
        if let Some(path) = self.token_file {
            endpoint = endpoint.token_file(path);
        }
        if let Some(token) = self.token {
            endpoint = endpoint.token("clients", Role::Write, token);
        }
        let Some(port) = self.open_port else { return Ok(endpoint) };
        let role: Role =
            self.open_role.parse().map_err(|error| PyValueError::new_err(format!("open_role: {error}")))?;
        Ok(endpoint.open_entrance(address(host, port), role))
    }
}

/// A client's credentials, and the authorities that it trusts.
#[derive(Default)]
pub(crate) struct ClientSecurity {
    token: Option<Arc<str>>,
    tls: Option<ClientTls>,
}

/// Files in PEM.
#[derive(FromPyObject)]
pub(crate) struct ClientCertificates {
    ca: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    server_name: Option<String>,
}

impl ServerCertificates {
    /// Reads the certificate that authenticates the server.
    pub(crate) fn read(self) -> PyResult<ServerTls> {
        let identity = Identity::from_files(&self.cert, &self.key).map_err(unusable)?;
        ServerTls::with_files(identity, self.client_ca.as_deref()).map_err(unusable)
    }
}

impl ClientSecurity {
    pub(crate) fn new(token: Option<String>, tls: Option<ClientCertificates>) -> PyResult<ClientSecurity> {
        let tls = tls.map(ClientCertificates::read).transpose()?;
        Ok(ClientSecurity { token: token.map(Arc::from), tls })
    }

    pub(crate) fn apply(&self, options: ClientOptions) -> ClientOptions {
        let options = self.token.iter().cloned().fold(options, ClientOptions::token);
        self.tls.iter().cloned().fold(options, ClientOptions::tls)
    }
}

impl ClientCertificates {
    /// Reads the authorities that a client trusts, and the certificate that authenticates it.
    pub(crate) fn read(self) -> PyResult<ClientTls> {
        self.certificates().map_err(unusable)
    }

    fn certificates(self) -> Result<ClientTls, TlsError> {
        let identity = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => Some(Identity::from_files(cert, key)?),
            _ => None,
        };
        let tls = ClientTls::with_files(self.ca.as_deref(), identity)?;
        match &self.server_name {
            Some(name) => tls.server_name(name),
            None => Ok(tls),
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn unusable(error: TlsError) -> PyErr {
    PyValueError::new_err(error.to_string())
}
