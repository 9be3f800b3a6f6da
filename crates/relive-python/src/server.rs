//! A server in this process.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use relive_checkpoint::{Root, Tier};
use relive_client::ErrorKind;
use relive_engine::{Engine, EngineBuilder};

use relive_server::{HttpServer, Monitor, ServerOptions, bind, serve};
use relive_table::CheckpointProgress;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::{oneshot, watch};

use crate::address::IN_PROCESS;
use crate::checkpoints::{self, Begun, Checkpoints, Spill, begin_without};
use crate::error::{invalid, raise_kind};
use crate::finalization;
use crate::local::{self, Place};
use crate::security::ServerSecurity;
use crate::table::Table;
use crate::wait::{self, seconds};

/// Time that connections get to end when a server stops.
const DRAIN: Duration = Duration::from_millis(500);

/// Tables served within the process, through memory, and on a port.
#[pyclass(frozen, module = "relive._native")]
pub(crate) struct Server {
    /// Where clients of this process find it.
    place: Place,
    ports: OnceLock<Ports>,
    engine: Engine,
    /// Where checkpoints are written.
    root: Arc<Root>,
    tier: Option<Arc<Tier>>,
    running: Mutex<Option<Running>>,
    monitor: Monitor,
    http_address: Option<String>,
    end: watch::Sender<bool>,
    process: u32,
}

/// Where others come in.
#[derive(Clone, Copy)]
struct Ports {
    port: u16,
    /// Where everybody may come in, if there is such an entrance.
    open_port: Option<u16>,
}

/// What Python says about the bound on memory.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Memory {
    max_bytes: Option<u64>,
    /// Seconds.
    max_bytes_wait: Option<f64>,
    /// Where chunks beyond `max_bytes` move to.
    spill_dir: Option<PathBuf>,
}

impl Memory {
    fn bound(&self, mut builder: EngineBuilder) -> PyResult<EngineBuilder> {
        if let Some(max_bytes) = self.max_bytes {
            builder = builder.max_bytes(max_bytes);
        }
        match self.max_bytes_wait {
            Some(wait) => Ok(builder.max_bytes_wait(seconds(Some(wait))?)),
            None => Ok(builder),
        }
    }

    /// The disk tier with its budget.
    fn tier(self, py: Python<'_>) -> PyResult<Option<Spill>> {
        let Some(folder) = self.spill_dir else { return Ok(None) };
        let budget_bytes = self.max_bytes.ok_or_else(|| {
            PyValueError::new_err(
                "spill_dir needs max_bytes, the memory that chunks may take before they move to disk",
            )
        })?;
        let tier = Tier::open(folder).map_err(|error| checkpoints::raise(py, &error))?;
        Ok(Some(Spill { tier: Arc::new(tier), budget_bytes }))
    }
}

struct Running {
    /// None if no port is open.
    listening: Option<Listening>,
    http: Option<HttpServer>,
}

/// The thread that serves the ports.
struct Listening {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<std::io::Result<()>>,
}

#[pymethods]
impl Server {
    /// Tables that begin with what the newest checkpoint holds, at `port` of `host` (0: a free one), or without a `port` within
    /// the process only. With a `seed` all random choices follow from it.
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 hands lists over by value")]
    #[expect(clippy::too_many_arguments, reason = "the options of a server, named in Python")]
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
        let runtime = runtime_of_server()?;
        let monitor = Monitor::new();
        let http = http.map(|address| py.detach(|| runtime.block_on(show(address, &monitor)))).transpose()?;
        let http_address = http.as_ref().map(|http| http.address().to_string());
        let mut builder = memory.bound(engine_of(&tables)?)?;
        if let Some(seed) = seed {
            builder = builder.seed(seed);
        }
        let spill = memory.tier(py)?;
        let tier = spill.as_ref().map(|spill| Arc::clone(&spill.tier));
        let Begun { engine, root } = match checkpoints {
            Some(checkpoints) => checkpoints.begin(py, builder, spill)?,
            None => begin_without(builder, spill)?,
        };
        let listener = match port {
            Some(port) => Some(py.detach(|| runtime.block_on(listen(host, port)))?),
            None => None,
        };
        for (table, handle) in tables.iter().zip(engine.tables().iter()) {
            table.get().serve_as(handle)?;
        }
        let server = Server {
            place: local::new_place(),
            ports: OnceLock::new(),
            engine,
            root,
            tier,
            running: Mutex::new(Some(Running { listening: None, http })),
            monitor,
            http_address,
            end: watch::Sender::new(false),
            process: std::process::id(),
        };
        if let Some(listener) = listener {
            server.serve_at(py, runtime, listener, host, security)?;
        }
        local::put(server.place, server.engine.clone());
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
        if !self.is_running() {
            return Err(raise_kind(py, ErrorKind::Closed, "listen: the server was stopped".to_owned()));
        }
        if let Some(Ports { port, .. }) = self.ports.get() {
            let text = format!("listen: the server listens at port {port} already");
            return Err(raise_kind(py, ErrorKind::FailedPrecondition, text));
        }
        let runtime = runtime_of_server()?;
        let listener = py.detach(|| runtime.block_on(listen(host, port)))?;
        self.serve_at(py, runtime, listener, host, security)
    }

    /// The port that is served; none if there is none.
    #[getter]
    fn port(&self) -> Option<u16> {
        self.ports.get().map(|ports| ports.port)
    }

    /// Where everybody may come in, if there is such an entrance.
    #[getter]
    fn open_port(&self) -> Option<u16> {
        self.ports.get().and_then(|ports| ports.open_port)
    }

    /// The address by which clients of this process find the server, whether it has a port or not.
    #[getter]
    fn local_address(&self) -> String {
        format!("{IN_PROCESS}{}", self.place)
    }

    /// Where metrics and the dashboard are.
    #[getter]
    fn http_address(&self) -> Option<&str> {
        self.http_address.as_deref()
    }

    #[getter]
    fn is_running(&self) -> bool {
        self.process == std::process::id() && self.running.lock().is_some()
    }

    /// Stops serving; clients that wait get an error. A second call does nothing. Raises what the server ended with, such as a last
    /// checkpoint that could not be written.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        if self.process != std::process::id() {
            return Ok(());
        }
        let Some(running) = self.running.lock().take() else { return Ok(()) };
        match self.end(py, running) {
            Ok(ended) => ended.map_err(|error| PyRuntimeError::new_err(error.to_string())),
            Err(_) => Err(PyRuntimeError::new_err("the server's thread had ended with a panic")),
        }
    }

    /// Writes all tables, as they are at one moment, into the folder or bucket `path`, in place of what was written there before. Gives
    /// where the checkpoint is.
    fn save(&self, py: Python<'_>, path: &str) -> PyResult<String> {
        let write = || Root::new(path).keep(1).save(self.engine.snapshot(), &CheckpointProgress::default());
        py.detach(write).map(|saved| saved.location).map_err(|error| checkpoints::raise(py, &error))
    }

    /// Waits until the server is stopped from another thread, or for `timeout` seconds; whether it was stopped.
    #[pyo3(signature = (timeout = None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let timeout = seconds(timeout)?;
        let mut ended = self.end.subscribe();
        // A sender that is gone means the same as a message.
        let ended = async move { drop(ended.wait_for(|ended| *ended).await) };
        wait::wait_quietly(py, async { tokio::time::timeout(timeout, ended).await.is_ok() })
    }
}

impl Server {
    /// Serves what comes in at `listener`, in a thread.
    fn serve_at(
        &self,
        py: Python<'_>,
        runtime: Runtime,
        listener: TcpListener,
        host: Option<&str>,
        security: ServerSecurity,
    ) -> PyResult<()> {
        let port = listener.local_addr()?.port();
        let options = ServerOptions::default().drain_timeout(DRAIN).monitor(self.monitor.clone());
        let options = security.bound(options);
        let (entrances, open_port) = {
            let _inside = runtime.enter();
            security
                .entrances(listener, |open_port| py.detach(|| runtime.block_on(listen(host, open_port))))?
        };
        let (stop, stopped) = oneshot::channel();
        let (served, end) = (self.engine.clone(), self.end.clone());
        let thread = std::thread::Builder::new().name("relive-server".to_owned()).spawn(move || {
            let ended = runtime.block_on(serve(entrances, served, options, async { drop(stopped.await) }));
            if let Err(error) = &ended {
                tracing::error!(target: "relive", "the server on port {port} ended badly: {error}");
            }
            end.send_replace(true);
            ended
        })?;
        if let Some(running) = &mut *self.running.lock() {
            running.listening = Some(Listening { stop, thread });
        }
        let _ = self.ports.set(Ports { port, open_port });
        local::put(Place::from(port), self.engine.clone());
        Ok(())
    }

    /// Takes no new clients, ends what waits, and waits for the connections to end.
    fn end(&self, py: Python<'_>, running: Running) -> std::thread::Result<std::io::Result<()>> {
        local::stop(self.place, &self.engine);
        if let Some(Ports { port, .. }) = self.ports.get() {
            local::stop(Place::from(*port), &self.engine);
        }
        py.detach(|| {
            self.engine.close();
            let ended = match running.listening {
                Some(Listening { stop, thread }) => {
                    drop(stop);
                    thread.join()
                }
                None => Ok(self.shut_down()),
            };
            self.end.send_replace(true);
            drop(running.http);
            // The next server of this folder may be waiting, and this object may be kept for long.
            self.root.release();
            if let Some(tier) = &self.tier {
                tier.close();
            }
            ended
        })
    }

    /// Ends the tables, with a last checkpoint if one is to be written: for a server without a thread that does.
    fn shut_down(&self) -> std::io::Result<()> {
        let Some(last) = self.engine.shut_down() else { return Ok(()) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(last).map(drop).map_err(std::io::Error::other)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // A fork's copy: the threads are the parent's.
            std::mem::forget(self.running.get_mut().take());
        } else if let Some(running) = self.running.get_mut().take() {
            // Nobody is there to hear of a panic; it was reported where it happened.
            drop(finalization::attach(|py| self.end(py, running)));
        }
    }
}

fn engine_of(tables: &[Py<Table>]) -> PyResult<EngineBuilder> {
    if let Some(table) = tables.iter().find(|table| table.get().is_served()) {
        return Err(PyValueError::new_err(format!(
            "table {:?} was given to a server before; Table.replace() makes an empty one of the same rules",
            table.get().config().name
        )));
    }
    let add = |builder: EngineBuilder, table: &Py<Table>| {
        let table = table.get();
        builder.table_with_extensions(table.config().clone(), table.build_extensions())
    };
    Ok(tables.iter().fold(Engine::builder(), add))
}

fn runtime_of_server() -> PyResult<Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

/// Metrics, health and the dashboard at `address`, `host:port`.
async fn show(address: &str, monitor: &Monitor) -> PyResult<HttpServer> {
    let wrong = |why: &dyn std::fmt::Display| {
        PyValueError::new_err(format!(
            "http must be an address such as 127.0.0.1:9090, not {address:?}: {why}"
        ))
    };
    let mut found = tokio::net::lookup_host(address).await.map_err(|error| wrong(&error))?;
    let found = found.next().ok_or_else(|| wrong(&"it has no address"))?;
    Ok(HttpServer::start(bind(found).await.map_err(invalid)?, monitor.clone())?)
}

/// Both address families if the machine has both, as dm-reverb does.
async fn listen(host: Option<&str>, port: u16) -> PyResult<TcpListener> {
    let Some(host) = host else {
        let all_v6 = SocketAddr::new(IpAddr::from([0_u16; 8]), port);
        return match bind(all_v6).await {
            Err(error) if error.source.kind() != std::io::ErrorKind::AddrInUse => {
                bind(SocketAddr::new(IpAddr::from([0_u8; 4]), port)).await.map_err(invalid)
            }
            bound => bound.map_err(invalid),
        };
    };
    let mut addresses = tokio::net::lookup_host((host, port)).await?;
    let address =
        addresses.next().ok_or_else(|| PyValueError::new_err(format!("host {host:?} has no address")))?;
    bind(address).await.map_err(invalid)
}
