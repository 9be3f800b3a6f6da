//! Serves a run's own tables to its workers and to the dashboard.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use relive_host::{Background, Endpoint, Serve};
use relive_rl::run::Watch;
use relive_server::access::Role;
use relive_server::{HttpServer, Monitor, ServerOptions};

use crate::failure::Result;
use crate::output;

/// Serves a run's tables, and the dashboard if there is one, until it is dropped.
pub(super) struct RunServer {
    http: Option<HttpServer>,
    _background: Background,
    serve: Serve,
    address: SocketAddr,
    /// The token for access to the tables, if it is required.
    token: Option<String>,
}

impl RunServer {
    /// Starts a dashboard at `http`, if requested, and serves tables at `listen` to clients with `token`. A run that
    /// recreates its tables with each checkpoint uses a new port each time.
    pub(super) fn start(
        http: Option<SocketAddr>,
        listen: Option<SocketAddr>,
        token: Option<String>,
    ) -> Result<RunServer> {
        let (background, monitor) = (Background::new()?, Monitor::new());
        let http = http.map(|address| background.show(address, monitor.clone())).transpose()?;
        let guarded = |endpoint: Endpoint| match &token {
            Some(token) => endpoint.token("workers", Role::Write, token),
            None => endpoint,
        };
        let anywhere = Endpoint::new(":0");
        let bound = background.bind(guarded(listen.map_or_else(|| anywhere.clone(), Endpoint::new)))?;
        let (address, options) = (bound.address(), ServerOptions::default().monitor(monitor));
        let serve = background.serving(bound, Some(guarded(anywhere)), options, "the run's tables");
        Ok(RunServer { http, _background: background, serve, address, token })
    }

    /// Returns the address of the tables.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address of the tables for processes on this machine.
    pub(super) fn near_address(&self) -> SocketAddr {
        match self.address {
            address if address.ip().is_unspecified() => {
                SocketAddr::from((Ipv4Addr::LOCALHOST, address.port()))
            }
            address => address,
        }
    }

    /// Returns the address of the dashboard, if there is one.
    pub(super) fn http(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(HttpServer::address)
    }

    /// Returns the token that workers must send.
    pub(super) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Logs the address of the dashboard.
    pub(super) fn announce(&self) {
        if let Some(http) = &self.http {
            output::print_error(&format!("dashboard at http://{}/", http.address()));
        }
    }

    /// Returns a function that serves the tables passed to it.
    pub(super) fn watch(&self) -> Watch {
        let serve = Arc::clone(&self.serve);
        Watch::new(move |engine| serve(engine))
    }
}
