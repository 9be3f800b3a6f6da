//! The dashboard of a run whose tables are in this process.

use std::net::{Ipv4Addr, SocketAddr};

use relive_rl::experiment::Watch;
use relive_server::{Entrances, HttpServer, Monitor, ServerOptions};
use tokio::runtime::Runtime;

use crate::failure::{Failure, Kind, Result};
use crate::output;

/// Serves a run's tables and shows them, for as long as it lives.
pub(super) struct Board {
    http: HttpServer,
    runtime: Runtime,
    monitor: Monitor,
}

impl Board {
    pub(super) fn start(address: SocketAddr) -> Result<Board> {
        let broken = |error: std::io::Error| Failure::new(Kind::Runtime, error);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(broken)?;
        let monitor = Monitor::new();
        let http = runtime.block_on(async {
            let listener =
                relive_server::bind(address).await.map_err(|error| Failure::text(Kind::Bind, error))?;
            HttpServer::start(listener, monitor.clone()).map_err(broken)
        })?;
        Ok(Board { http, runtime, monitor })
    }

    /// Says where it is.
    pub(super) fn announce(&self) {
        output::complain(&format!("dashboard at http://{}/", self.http.address()));
    }

    /// Serves the tables on a free port of this machine, which is what the dashboard shows.
    pub(super) fn watch(&self) -> Watch {
        let (handle, monitor) = (self.runtime.handle().clone(), self.monitor.clone());
        Watch::new(move |engine| {
            let (engine, monitor) = (engine.clone(), monitor.clone());
            handle.spawn(async move {
                let listener = match relive_server::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await {
                    Ok(listener) => listener,
                    Err(error) => return tracing::warn!(%error, "the dashboard shows no tables"),
                };
                let options = ServerOptions::default().monitor(monitor);
                let served =
                    relive_server::serve(Entrances::from(listener), engine, options, std::future::pending());
                if let Err(error) = served.await {
                    tracing::warn!(%error, "the dashboard shows no tables any more");
                }
            });
        })
    }
}
