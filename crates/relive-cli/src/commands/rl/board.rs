//! A run's own tables, served to the workers of the run and to the dashboard.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use relive_host::{Background, Endpoint, Serve};
use relive_rl::run::Watch;
use relive_server::access::Role;
use relive_server::{HttpServer, Monitor, ServerOptions};

use crate::failure::Result;
use crate::output;

/// Serves a run's tables, and shows them if there is a dashboard, for as long as it lives.
pub(super) struct Board {
    http: Option<HttpServer>,
    _background: Background,
    serve: Serve,
    address: SocketAddr,
    /// The token that gives access to the tables, if not everybody has it.
    token: Option<String>,
}

impl Board {
    /// A dashboard at `http`, if there is to be one, and tables at `listen`, for whoever shows `token`. Those of a
    /// run that makes them anew with each checkpoint are on another port each time.
    pub(super) fn start(
        http: Option<SocketAddr>,
        listen: Option<SocketAddr>,
        token: Option<String>,
    ) -> Result<Board> {
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
        Ok(Board { http, _background: background, serve, address, token })
    }

    /// Where the tables are served.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where the tables are served, for processes of this machine.
    pub(super) fn near_address(&self) -> SocketAddr {
        match self.address {
            address if address.ip().is_unspecified() => {
                SocketAddr::from((Ipv4Addr::LOCALHOST, address.port()))
            }
            address => address,
        }
    }

    /// Where the dashboard is, if there is one.
    pub(super) fn http(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(HttpServer::address)
    }

    /// What workers must show.
    pub(super) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Says where the dashboard is.
    pub(super) fn announce(&self) {
        if let Some(http) = &self.http {
            output::complain(&format!("dashboard at http://{}/", http.address()));
        }
    }

    /// Serves the tables that it is shown.
    pub(super) fn watch(&self) -> Watch {
        let serve = Arc::clone(&self.serve);
        Watch::new(move |engine| serve(engine))
    }
}
