//! A node of a run whose workers are processes of Python.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use pyo3::prelude::*;
use relive_client::ClientOptions;
use relive_client::blocking::Client;
use relive_engine::{Engine, EngineBuilder};
use relive_rl::RlError;
use relive_rl::processes::{Connect, Hosted, Node, NodeWorkers, Running, node_tables};
use relive_rl::run::Stop;
use relive_server::access::{Access, Role, Tokens};
use relive_server::{Entrance, ServerOptions};
use tokio::runtime::{Builder, Runtime};

use super::foreign::Raised;
use super::raise::raise;
use crate::error::invalid;
use crate::finalization;
use crate::security::ClientSecurity;

/// Workers in Python: `hold(numbers, address)` has those of these numbers run, which take weights at the address, and `watch()` gives how many run and
/// how many were started anew.
struct PythonWorkers {
    object: Py<PyAny>,
    near: String,
    raised: Raised,
}

impl PythonWorkers {
    fn call<T: Send>(
        &self,
        work: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T> + Send,
    ) -> relive_rl::Result<T> {
        finalization::attach(|py| {
            work(self.object.bind(py)).map_err(|error| RlError::Foreign(self.raised.keep(error)))
        })
    }
}

impl NodeWorkers for PythonWorkers {
    fn hold(&mut self, numbers: &[u32]) -> relive_rl::Result<()> {
        let (numbers, near) = (numbers.to_vec(), self.near.clone());
        self.call(|object| object.call_method1("hold", (numbers, near)).map(drop))
    }

    fn watch(&mut self) -> relive_rl::Result<Running> {
        let (workers, restarts) = self.call(|object| object.call_method0("watch")?.extract())?;
        Ok(Running { workers, restarts })
    }
}

/// Serves a node's weights for as long as it lives.
struct Port {
    runtime: Option<Runtime>,
    address: SocketAddr,
}

impl Port {
    fn start(ip: IpAddr, engine: &Engine, token: Option<&str>) -> PyResult<Port> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let listener = runtime.block_on(relive_server::bind(SocketAddr::new(ip, 0))).map_err(invalid)?;
        let address = listener.local_addr()?;
        let mut entrance = Entrance::from(listener);
        if let Some(token) = token {
            let tokens = Tokens::one("nodes", Role::Read, token).map_err(invalid)?;
            entrance = entrance.access(Access::Tokens(Arc::new(tokens)));
        }
        let served =
            relive_server::serve(entrance, engine.clone(), ServerOptions::default(), std::future::pending());
        runtime.spawn(async move {
            if let Err(error) = served.await {
                tracing::warn!(target: "relive", %error, "the node's weights are not served any more");
            }
        });
        Ok(Port { runtime: Some(runtime), address })
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.runtime.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

/// Is a node of the run at an address until that is over, with room for so many workers; how many it had at most, and how many were started anew.
#[pyfunction]
#[pyo3(signature = (address, workers, *, actors, name, host, ip, token = None))]
#[expect(clippy::too_many_arguments, reason = "what a node is, named in Python")]
pub(crate) fn host_for_run(
    py: Python<'_>,
    address: &str,
    workers: Py<PyAny>,
    actors: u32,
    name: String,
    host: String,
    ip: IpAddr,
    token: Option<String>,
) -> PyResult<(u32, u64)> {
    let raised = Raised::default();
    let tables = node_tables().fold(Engine::builder(), EngineBuilder::table);
    let engine = tables.build().map_err(invalid)?;
    let port = Port::start(ip, &engine, token.as_deref())?;
    let options = ClientSecurity::new(token, None)?.apply(ClientOptions::default());
    let mut workers =
        PythonWorkers { object: workers, near: port.address.to_string(), raised: raised.clone() };
    let hosted = py.detach(|| {
        let client = Client::connect_with(address, options.clone())?;
        let connect: Connect =
            Arc::new(move |address: &str| Ok(Client::connect_with(address, options.clone())?));
        let (far, stop) = (Some(port.address.to_string()), Stop::new());
        let node = Node { client: &client, name, host, address: far, actors, engine, connect, stop: &stop };
        relive_rl::processes::host(&node, &mut workers)
    });
    match hosted {
        Ok(Hosted { workers, restarts }) => Ok((workers, restarts)),
        Err(error) => Err(raised.take().unwrap_or_else(|| raise(py, &error))),
    }
}
