//! The ports at which a node serves its weights: to its own workers, and to other nodes.

use std::net::{Ipv4Addr, SocketAddr};

use relive_engine::Engine;
use relive_host::{Background, Endpoint};
use relive_server::ServerOptions;
use relive_server::access::Role;

use crate::failure::{Failure, Result};
use crate::security::ClientSecurity;

/// Serves a node's weights until it is dropped.
pub(super) struct NodePort {
    _background: Background,
    local_address: String,
    /// The address for other nodes.
    advertised_address: Option<SocketAddr>,
    has_tls: bool,
}

impl NodePort {
    /// Serves at `listen` for other nodes, with the run's token and this node's certificate, and at a local port for
    /// its workers. In a run with TLS, other nodes are served only if this node has a certificate.
    pub(super) fn start(listen: SocketAddr, engine: &Engine, security: &ClientSecurity) -> Result<NodePort> {
        let (background, token) = (Background::new()?, security.token()?);
        let guarded = |endpoint: Endpoint| match &token {
            Some(token) => endpoint.token("nodes", Role::Read, token),
            None => endpoint,
        };
        let has_tls = security.has_certificate();
        let is_open = has_tls || !security.has_tls();
        let mut bound = background.bind(guarded(Endpoint::new(":0")))?;
        let local_address = bound.address();
        // One port serves workers and other nodes if their requirements are the same.
        let is_same = !has_tls && listen == SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut advertised_address = is_open.then_some(local_address);
        if is_open && !is_same {
            let other = background.bind(guarded(security.certified(Endpoint::new(listen))))?;
            advertised_address = Some(advertised(other.address())?);
            bound = bound.and(other);
        } else if !is_open {
            tracing::info!(
                "this node does not pass weights on: the run uses TLS, but the node has no certificate (--tls-cert, --tls-key)"
            );
        }
        background.serving(bound, None, ServerOptions::default(), "the node's weights")(engine);
        Ok(NodePort {
            _background: background,
            local_address: format!("http://{local_address}"),
            advertised_address,
            has_tls,
        })
    }

    /// Returns the address at which this node's workers receive weights.
    pub(super) fn local_address(&self) -> &str {
        &self.local_address
    }

    /// Returns the address for other nodes, if other nodes can connect.
    pub(super) fn address(&self) -> Option<String> {
        let scheme = if self.has_tls { "https://" } else { "" };
        self.advertised_address.map(|address| format!("{scheme}{address}"))
    }
}

/// # Errors
/// Other machines cannot reach this machine at the address.
fn advertised(address: SocketAddr) -> Result<SocketAddr> {
    if address.ip().is_unspecified() {
        let text =
            format!("other nodes cannot connect to --listen {address}; give an address of this machine");
        return Err(Failure::usage(text));
    }
    Ok(address)
}
