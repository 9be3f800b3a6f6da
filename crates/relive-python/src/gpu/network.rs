//! Ranks on other machines.

use std::time::Duration;

use pyo3::prelude::*;
use relive_gpu::{Network, NetworkOptions, Peer, Reader, RowServer};

use super::raise::{OrRaise, interrupted, invalid};
use crate::connection::security::{ClientCertificates, ServerCertificates};

/// How ranks on several machines connect.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(super) struct Settings {
    /// The address on which this rank listens.
    listen: String,
    port: u16,
    token: String,
    timeout: f64,
    tls: Option<ServerCertificates>,
    client_tls: Option<ClientCertificates>,
}

/// A store that is served to other machines, and the network for connections to their stores.
pub(super) struct ServedStore {
    network: Network,
    server: RowServer,
}

impl ServedStore {
    pub(super) fn new(py: Python<'_>, reader: &Reader, settings: Settings) -> PyResult<ServedStore> {
        let Settings { listen, port, token, timeout, tls, client_tls } = settings;
        let patience = Duration::try_from_secs_f64(timeout)
            .map_err(|error| invalid(py, format!("timeout is {timeout}: {error}")))?;
        // The other ranks receive errors of these kinds.
        let unusable = |error: PyErr| invalid(py, error.value(py).to_string());
        let options = NetworkOptions {
            token: Some(token),
            server_tls: tls.map(ServerCertificates::read).transpose().map_err(unusable)?,
            client_tls: client_tls.map(ClientCertificates::read).transpose().map_err(unusable)?,
            patience,
            interrupted: Some(interrupted),
            ..NetworkOptions::new()
        };
        let made = py.detach(|| {
            let network = Network::new(options)?;
            let server = RowServer::start(&network, reader, (listen.as_str(), port))?;
            Ok::<_, relive_gpu::Error>(ServedStore { network, server })
        });
        made.or_raise(py)
    }

    pub(super) fn port(&self) -> u16 {
        self.server.address().port()
    }

    /// Returns the stores at the given addresses.
    pub(super) fn connect(&self, addresses: &[String]) -> relive_gpu::Result<Vec<Peer>> {
        addresses.iter().map(|address| Peer::connect(&self.network, address)).collect()
    }
}
