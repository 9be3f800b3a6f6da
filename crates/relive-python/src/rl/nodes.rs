//! A node of a run with Python processes as workers.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use pyo3::prelude::*;
use relive_client::ClientOptions;
use relive_client::blocking::Client;
use relive_engine::{Engine, EngineBuilder};
use relive_host::{Background, Endpoint};
use relive_rl::RlError;
use relive_rl::processes::{Connect, Hosted, Node, NodeWorkers, Running, node_tables};
use relive_rl::run::Stop;
use relive_server::ServerOptions;
use relive_server::access::Role;

use super::foreign::Raised;
use super::raise::raise;
use crate::connection::security::ClientSecurity;
use crate::error::{invalid, raise_host};
use crate::interpreter::finalization;

/// Workers in Python: `hold(numbers, address)` runs the workers with the given numbers, which receive weights from the
/// address; `watch()` returns how many are running and how many were restarted.
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

/// Runs a node of the run at an address until the run ends, with room for `actors` workers. Returns the maximum number
/// of workers that ran at the same time, and how many were restarted.
#[pyfunction]
#[pyo3(signature = (address, workers, *, actors, name, host, ip, token = None))]
#[expect(clippy::too_many_arguments, reason = "the options of a node, which are keyword arguments in Python")]
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
    // Serves the node's weights until it is dropped.
    let background = Background::new().map_err(|error| raise_host(py, error))?;
    let mut endpoint = Endpoint::new(SocketAddr::new(ip, 0));
    if let Some(token) = &token {
        endpoint = endpoint.token("nodes", Role::Read, token);
    }
    let bound = background.bind(endpoint).map_err(|error| raise_host(py, error))?;
    let port = bound.address().to_string();
    background.serving(bound, None, ServerOptions::default(), "the node's weights")(&engine);
    let options = ClientSecurity::new(token, None)?.apply(ClientOptions::default());
    let mut workers = PythonWorkers { object: workers, near: port.clone(), raised: raised.clone() };
    let hosted = py.detach(|| {
        let client = Client::connect_with(address, options.clone())?;
        let connect: Connect =
            Arc::new(move |address: &str| Ok(Client::connect_with(address, options.clone())?));
        let (far, stop) = (Some(port), Stop::new());
        let node = Node { client: &client, name, host, address: far, actors, engine, connect, stop: &stop };
        relive_rl::processes::host(&node, &mut workers)
    });
    match hosted {
        Ok(Hosted { workers, restarts }) => Ok((workers, restarts)),
        Err(error) => Err(raised.take().unwrap_or_else(|| raise(py, &error))),
    }
}
