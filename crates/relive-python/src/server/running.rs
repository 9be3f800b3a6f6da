//! A server in this process.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use relive_checkpoint::Root;
use relive_client::ErrorKind;
use relive_engine::Engine;
use relive_host::{ServerBuilder, Words};
use relive_server::ServerOptions;
use relive_table::CheckpointProgress;
use tokio::runtime::{Builder, Runtime};

use super::checkpoints::Checkpoints;
use crate::connection::address::IN_PROCESS;
use crate::connection::in_process::{self, Place};
use crate::connection::security::ServerSecurity;
use crate::error::{raise_host, raise_kind};
use crate::interpreter::finalization;
use crate::interpreter::lock::Brief;
use crate::interpreter::wait::{self, seconds};
use crate::tables::table::Table;

/// How long connections may take to end when a server stops.
const DRAIN: Duration = Duration::from_millis(500);

/// The names that messages use for the arguments.
const WORDS: Words = Words {
    http: "http",
    spill: "spill_dir",
    max_bytes: "max_bytes",
    salvage: "salvage=True",
    given_rules: "config=\"code\"",
    other_tables: None,
    load: |place| format!("{place:?} as the path"),
};

/// Tables that are served to clients in this process and, with a port, to other processes.
#[pyclass(frozen, module = "relive._native")]
pub(crate) struct Server {
    /// The place at which clients in this process find the server.
    place: Place,
    ports: OnceLock<Ports>,
    engine: Engine,
    running: Brief<Option<RunningServer>>,
    http_address: Option<String>,
    process: u32,
}

/// The ports for other processes.
#[derive(Clone, Copy)]
struct Ports {
    port: u16,
    /// The port of the endpoint without TLS or tokens, if there is one.
    open_port: Option<u16>,
}

/// The bound on memory, from Python.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Memory {
    max_bytes: Option<u64>,
    /// In seconds.
    max_bytes_wait: Option<f64>,
    /// The folder for chunks beyond `max_bytes`.
    spill_dir: Option<PathBuf>,
}

struct RunningServer {
    server: relive_host::Server,
    /// The thread that accepts connections; `None` if no port is open.
    runtime: Option<Runtime>,
}

#[pymethods]
impl Server {
    /// Creates tables with the contents of the newest checkpoint, served at `port` of `host` (0: a free one), or,
    /// without a `port`, only in this process. A `seed` determines all random choices.
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 passes lists by value")]
    #[expect(
        clippy::too_many_arguments,
        reason = "the options of a server, which are keyword arguments in Python"
    )]
    fn new(
        py: Python<'_>,
        tables: Vec<Py<Table>>,
        host: Option<&str>,
        port: Option<u16>,
        checkpoints: Option<Checkpoints>,
        memory: Memory,
        security: ServerSecurity,
        http: Option<&str>,
        seed: Option<u64>,
    ) -> PyResult<Server> {
        let mut builder = memory.bound(builder_of(&tables)?)?.words(WORDS);
        builder = seed.into_iter().fold(builder, ServerBuilder::seed);
        builder = http.into_iter().fold(builder, ServerBuilder::http);
        builder = builder
            .checkpoints(
                checkpoints
                    .map_or_else(|| Ok(relive_host::Checkpoints::temporary()), Checkpoints::settings)?,
            )
            .options(security.bound(ServerOptions::default().drain_timeout(DRAIN)));
        let running = match port {
            Some(port) => {
                let (endpoint, runtime) = (security.endpoint(host, port)?, listening_runtime()?);
                let server = py.detach(|| runtime.block_on(builder.bind(endpoint)));
                RunningServer {
                    server: server.map_err(|error| raise_host(py, error))?,
                    runtime: Some(runtime),
                }
            }
            None => {
                let runtime = passing_runtime()?;
                let server = py.detach(|| runtime.block_on(builder.in_process()));
                RunningServer { server: server.map_err(|error| raise_host(py, error))?, runtime: None }
            }
        };
        let engine = running.server.engine().clone();
        for (table, handle) in tables.iter().zip(engine.tables().iter()) {
            table.get().serve_as(handle)?;
        }
        let server = Server {
            place: in_process::new_place(),
            ports: OnceLock::new(),
            http_address: running.server.http_address().map(|address| address.to_string()),
            engine,
            running: Brief::new(None),
            process: std::process::id(),
        };
        server.note_ports(&running);
        server.running.replace(Some(running));
        in_process::put(server.place, server.engine.clone());
        Ok(server)
    }

    /// Opens `port` of `host` (0: a free one) for a server that has none.
    fn listen(
        &self,
        py: Python<'_>,
        host: Option<&str>,
        port: u16,
        security: ServerSecurity,
    ) -> PyResult<()> {
        let (endpoint, runtime) = (security.endpoint(host, port)?, listening_runtime()?);
        self.check_listens_not(py, self.is_running())?;
        // The lock is not held during this wait, because a thread that is waiting for the lock may hold the
        // interpreter.
        let bound = py.detach(|| runtime.block_on(endpoint.bind())).map_err(|error| raise_host(py, error))?;
        let listen = |running: &mut RunningServer| {
            {
                let _inside = runtime.enter();
                running.server.listen(bound)?;
            }
            running.runtime = Some(runtime);
            self.note_ports(running);
            Ok::<(), relive_host::Error>(())
        };
        let listening = self.running.with(|running| running.as_mut().map(listen));
        match listening {
            Some(Ok(())) => Ok(()),
            missed => self.check_listens_not(py, missed.is_some()),
        }
    }

    /// Returns the server's port, or `None`.
    #[getter]
    fn port(&self) -> Option<u16> {
        self.ports.get().map(|ports| ports.port)
    }

    /// Returns the port of the endpoint without TLS or tokens, if there is one.
    #[getter]
    fn open_port(&self) -> Option<u16> {
        self.ports.get().and_then(|ports| ports.open_port)
    }

    /// Returns the address at which clients in this process find the server, with or without a port.
    #[getter]
    fn local_address(&self) -> String {
        format!("{IN_PROCESS}{}", self.place)
    }

    /// Returns the address at which metrics and the dashboard are served.
    #[getter]
    fn http_address(&self) -> Option<&str> {
        self.http_address.as_deref()
    }

    #[getter]
    fn is_running(&self) -> bool {
        self.process == std::process::id() && self.running.with(|running| running.is_some())
    }

    /// Stops the server; waiting clients receive an error. A second call does nothing. Raises the error with which the
    /// server ended, such as a failure to write the last checkpoint.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        if self.process != std::process::id() {
            return Ok(());
        }
        let Some(running) = self.running.take() else { return Ok(()) };
        self.end(py, running)
    }

    /// Writes all tables, as of one moment, into the folder or bucket `path`, and replaces the previous checkpoint
    /// there. Returns the checkpoint's location.
    fn save(&self, py: Python<'_>, path: &str) -> PyResult<String> {
        let write = || Root::new(path).keep(1).save(self.engine.snapshot(), &CheckpointProgress::default());
        py.detach(write).map(|saved| saved.location).map_err(|error| raise_host(py, error))
    }

    /// Waits, for at most `timeout` seconds, until another thread stops the server. Returns whether the server has been
    /// stopped.
    #[pyo3(signature = (timeout = None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let timeout = seconds(timeout)?;
        let ended = self.running.with(|running| running.as_ref().map(|running| running.server.ended()));
        let Some(ended) = ended else {
            return Ok(true);
        };
        wait::wait_quietly(py, async move { tokio::time::timeout(timeout, ended).await.is_ok() })
    }
}

impl Server {
    /// # Errors
    /// The server has been stopped, or has a port.
    fn check_listens_not(&self, py: Python<'_>, is_running: bool) -> PyResult<()> {
        let raised = |kind, text: String| Err(raise_kind(py, kind, format!("listen: {text}")));
        match self.ports.get() {
            _ if !is_running => raised(ErrorKind::Closed, "the server was stopped".to_owned()),
            Some(Ports { port, .. }) => raised(
                ErrorKind::FailedPrecondition,
                format!("the server is already listening at port {port}"),
            ),
            None => Ok(()),
        }
    }

    /// Lets clients in this process that connect to the port access the tables directly.
    fn note_ports(&self, running: &RunningServer) {
        if running.runtime.is_some() {
            let port = running.server.address().port();
            let open_port = running.server.open_address().map(|address| address.port());
            let _ = self.ports.set(Ports { port, open_port });
            in_process::put(Place::from(port), self.engine.clone());
        }
    }

    /// Accepts no more clients, ends waiting calls, and waits for the connections to end.
    fn end(&self, py: Python<'_>, running: RunningServer) -> PyResult<()> {
        in_process::stop(self.place, &self.engine);
        if let Some(Ports { port, .. }) = self.ports.get() {
            in_process::stop(Place::from(*port), &self.engine);
        }
        let RunningServer { server, runtime } = running;
        let runtime = runtime.map_or_else(passing_runtime, Ok)?;
        py.detach(move || runtime.block_on(server.stop())).map_err(|error| raise_host(py, error))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // In a forked child, the server's threads belong to the parent.
            std::mem::forget(self.running.get_mut().take());
        } else if let Some(running) = self.running.get_mut().take() {
            // No caller can receive the error, but it has been logged.
            drop(finalization::attach(|py| self.end(py, running)));
        }
    }
}

impl Memory {
    fn bound(self, mut builder: ServerBuilder) -> PyResult<ServerBuilder> {
        builder = self.max_bytes.into_iter().fold(builder, ServerBuilder::max_bytes);
        builder = self.spill_dir.into_iter().fold(builder, ServerBuilder::spill);
        match self.max_bytes_wait {
            Some(wait) => Ok(builder.max_bytes_wait(seconds(Some(wait))?)),
            None => Ok(builder),
        }
    }
}

fn builder_of(tables: &[Py<Table>]) -> PyResult<ServerBuilder> {
    if let Some(table) = tables.iter().find(|table| table.get().is_served()) {
        return Err(PyValueError::new_err(format!(
            "table {:?} already belongs to a server; Table.replace() creates an empty one with the same rules",
            table.get().config().name
        )));
    }
    let add = |builder: ServerBuilder, table: &Py<Table>| {
        let table = table.get();
        builder.table_with_extensions(table.config().clone(), table.build_extensions())
    };
    Ok(tables.iter().fold(relive_host::Server::builder(), add))
}

/// Returns a thread that accepts connections for as long as the server exists.
fn listening_runtime() -> PyResult<Runtime> {
    Ok(Builder::new_multi_thread().worker_threads(1).thread_name("relive-server").enable_all().build()?)
}

/// Returns a runtime that runs its work on the calling thread.
fn passing_runtime() -> PyResult<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}
