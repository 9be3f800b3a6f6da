//! A run's own tables, served to the workers of the run and to the dashboard.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use parking_lot::Mutex;
use relive_rl::run::Watch;
use relive_server::access::{Access, Role, Tokens};
use relive_server::{Entrance, Entrances, HttpServer, Monitor, ServerOptions};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::failure::{Failure, Kind, Result};
use crate::output;

/// Serves a run's tables, and shows them if there is a dashboard, for as long as it lives.
pub(super) struct Board {
    http: Option<HttpServer>,
    runtime: Runtime,
    monitor: Monitor,
    listener: Arc<Mutex<Option<TcpListener>>>,
    address: SocketAddr,
    /// The token that gives access to the tables, if not everybody has it.
    token: Option<String>,
    access: Option<Access>,
}

impl Board {
    /// A dashboard at `http`, if there is to be one, and tables at `listen`, for whoever shows `token`.
    pub(super) fn start(
        http: Option<SocketAddr>,
        listen: Option<SocketAddr>,
        token: Option<String>,
    ) -> Result<Board> {
        let access = token.as_deref().map(access_by).transpose()?;
        let broken = |error: std::io::Error| Failure::new(Kind::Runtime, error);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(broken)?;
        let monitor = Monitor::new();
        let (http, listener) = runtime.block_on(async {
            let http = match http {
                Some(address) => {
                    Some(HttpServer::start(bind(address).await?, monitor.clone()).map_err(broken)?)
                }
                None => None,
            };
            Ok::<_, Failure>((http, bind(listen.unwrap_or(anywhere())).await?))
        })?;
        let address = listener.local_addr().map_err(broken)?;
        Ok(Board {
            http,
            runtime,
            monitor,
            listener: Arc::new(Mutex::new(Some(listener))),
            address,
            token,
            access,
        })
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

    /// Serves the tables that it is shown; those of a run that makes them anew with each checkpoint on another port each time.
    pub(super) fn watch(&self) -> Watch {
        let (handle, monitor) = (self.runtime.handle().clone(), self.monitor.clone());
        let (bound, access) = (Arc::clone(&self.listener), self.access.clone());
        Watch::new(move |engine| {
            let (engine, monitor) = (engine.clone(), monitor.clone());
            let (bound, access) = (bound.lock().take(), access.clone());
            handle.spawn(async move {
                let listener = match bound {
                    Some(listener) => Ok(listener),
                    None => relive_server::bind(anywhere()).await,
                };
                let listener = match listener {
                    Ok(listener) => listener,
                    Err(error) => return tracing::warn!(%error, "the run's tables are not served"),
                };
                let options = ServerOptions::default().monitor(monitor);
                let entrance = Entrance::from(listener);
                let entrance = match access {
                    Some(access) => entrance.access(access),
                    None => entrance,
                };
                let served =
                    relive_server::serve(Entrances::from(entrance), engine, options, std::future::pending());
                if let Err(error) = served.await {
                    tracing::warn!(%error, "the run's tables are not served any more");
                }
            });
        })
    }
}

/// Access for clients that show the token: to read and to write.
fn access_by(token: &str) -> Result<Access> {
    let tokens = Tokens::one("workers", Role::Write, token);
    let tokens =
        tokens.map_err(|error| Failure::usage(format!("the run cannot ask for this token: {error}")))?;
    Ok(Access::Tokens(Arc::new(tokens)))
}

async fn bind(address: SocketAddr) -> Result<TcpListener> {
    relive_server::bind(address).await.map_err(|error| Failure::text(Kind::Bind, error))
}

/// A free port of this machine.
fn anywhere() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}
