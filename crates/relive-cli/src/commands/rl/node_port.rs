//! Where a node serves its weights: to its own workers, and to other nodes.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use relive_engine::Engine;
use relive_server::access::{Access, Role, Tokens};
use relive_server::{Entrance, Entrances, ServerOptions};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::failure::{Failure, Kind, Result};
use crate::security::ClientSecurity;

/// Serves a node's weights for as long as it lives.
pub(super) struct NodePort {
    runtime: Option<Runtime>,
    near: String,
    /// By which other nodes reach it.
    far: Option<SocketAddr>,
    has_tls: bool,
}

impl NodePort {
    /// Serves at `listen` for other nodes, with the run's token and this node's certificate, and at a port of this machine for its workers. A run with
    /// TLS has other nodes only where this one has a certificate.
    pub(super) fn start(listen: SocketAddr, engine: &Engine, security: &ClientSecurity) -> Result<NodePort> {
        let broken = |error: std::io::Error| Failure::new(Kind::Runtime, error);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(broken)?;
        let (access, tls) = (access(security)?, security.server_tls()?);
        let is_open = tls.is_some() || !security.has_tls();
        let (near, far) = runtime.block_on(async {
            let near = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
            // One port serves both where they ask for the same.
            let is_same = tls.is_none() && listen == SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let far = if is_open && !is_same { Some(bind(listen).await?) } else { None };
            Ok::<_, Failure>((near, far))
        })?;
        let near_address = near.local_addr().map_err(broken)?;
        let far_address = match &far {
            Some(listener) => Some(advertised(listener.local_addr().map_err(broken)?)?),
            None => is_open.then_some(near_address),
        };
        let open = |listener: TcpListener| match &access {
            Some(access) => Entrance::from(listener).access(access.clone()),
            None => Entrance::from(listener),
        };
        let mut entrances = Entrances::from(open(near));
        let has_tls = tls.is_some();
        if let Some(listener) = far {
            let entrance = open(listener);
            entrances = entrances.and(match tls {
                Some(tls) => entrance.tls(tls),
                None => entrance,
            });
        } else if !is_open {
            tracing::info!(
                "this node passes no weights on: the run has TLS, and the node no certificate (--tls-cert, --tls-key)"
            );
        }
        let engine = engine.clone();
        runtime.spawn(async move {
            let options = ServerOptions::default();
            let served = relive_server::serve(entrances, engine, options, std::future::pending());
            if let Err(error) = served.await {
                tracing::warn!(%error, "the node's weights are not served any more");
            }
        });
        let near = format!("http://{near_address}");
        Ok(NodePort { runtime: Some(runtime), near, far: far_address, has_tls })
    }

    /// Where this node's workers take weights.
    pub(super) fn near(&self) -> &str {
        &self.near
    }

    /// Where other nodes do, if they can.
    pub(super) fn address(&self) -> Option<String> {
        let scheme = if self.has_tls { "https://" } else { "" };
        self.far.map(|address| format!("{scheme}{address}"))
    }
}

impl Drop for NodePort {
    fn drop(&mut self) {
        self.runtime.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

/// Access to weights: for clients that show the run's token, or for all where it has none.
fn access(security: &ClientSecurity) -> Result<Option<Access>> {
    let Some(token) = security.token()? else { return Ok(None) };
    let tokens = Tokens::one("nodes", Role::Read, &token);
    let tokens =
        tokens.map_err(|error| Failure::usage(format!("the node cannot ask for this token: {error}")))?;
    Ok(Some(Access::Tokens(Arc::new(tokens))))
}

/// # Errors
/// Other machines cannot reach it by this address.
fn advertised(address: SocketAddr) -> Result<SocketAddr> {
    let is_any = match address.ip() {
        IpAddr::V4(ip) => ip.is_unspecified(),
        IpAddr::V6(ip) => ip.is_unspecified(),
    };
    if is_any {
        let text =
            format!("--listen {address} is no address that other nodes reach: give one of this machine");
        return Err(Failure::usage(text));
    }
    Ok(address)
}

async fn bind(address: SocketAddr) -> Result<TcpListener> {
    relive_server::bind(address).await.map_err(|error| Failure::text(Kind::Bind, error))
}
