//! Runs with Python processes as workers: the server of their tables, and the entry points of the processes.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use pyo3::prelude::*;
use relive_client::ClientOptions;
use relive_client::blocking::Client;
use relive_host::{Background, Endpoint, Serve};
use relive_rl::learners::{Follower, learn};
use relive_rl::plan::MakeEnvironment;
use relive_rl::processes::{Worker, work};
use relive_rl::run::{Begun, Stop, Watch};
use relive_rl::{Agent, Result, RlError};
use relive_server::ServerOptions;
use relive_server::access::Role;

use super::agents::agent_of;
use super::foreign::Raised;
use super::raise::raise;
use super::source::Source;
use crate::connection::security::ClientSecurity;
use crate::error::raise_host;
use crate::interpreter::logs;

/// How workers on other machines reach the tables of a run.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(super) struct OtherMachines {
    /// The address at which other machines reach this one.
    host: IpAddr,
    /// The token that the workers must send.
    token: String,
}

/// Serves the tables of a run on a free port until it is dropped.
pub(super) struct ServedTables {
    _background: Background,
    serve: Serve,
    address: SocketAddr,
}

impl ServedTables {
    /// Serves only this machine, or other machines as well.
    pub(super) fn start(py: Python<'_>, others: Option<OtherMachines>) -> PyResult<ServedTables> {
        let background = Background::new().map_err(|error| raise_host(py, error))?;
        let endpoint = match others {
            Some(OtherMachines { host, token }) => {
                Endpoint::new(SocketAddr::from((host, 0))).token("workers", Role::Write, token)
            }
            None => Endpoint::new(":0"),
        };
        let bound = background.bind(endpoint).map_err(|error| raise_host(py, error))?;
        let address = bound.address();
        let serve = background.serving(bound, None, ServerOptions::default(), "the run's tables");
        Ok(ServedTables { _background: background, serve, address })
    }

    /// Returns the address of the tables.
    pub(super) fn address(&self) -> String {
        self.address.to_string()
    }

    /// Returns a function that serves the tables passed to it.
    pub(super) fn watch(&self) -> Watch {
        let serve = Arc::clone(&self.serve);
        Watch::new(move |engine| serve(engine))
    }

    /// Returns a function that calls a Python function with the address once the run can be joined.
    pub(super) fn begun(&self, start: Py<PyAny>, raised: &Raised, stop: &Stop) -> Begun {
        let (address, raised, stop) = (self.address.to_string(), raised.clone(), stop.clone());
        Begun::new(move || {
            if raised.call(|py| start.call1(py, (&address,))).is_err() {
                stop.stop();
            }
        })
    }
}

/// The agent and the environments of a process that joins a run: the given ones, or the native ones with the names from
/// the run.
struct JoinInputs {
    agent: Option<Arc<dyn Agent>>,
    make: Option<MakeEnvironment>,
    raised: Raised,
}

impl JoinInputs {
    fn of(agent: Option<&Bound<'_, PyAny>>, environment: Option<&Bound<'_, PyAny>>) -> PyResult<JoinInputs> {
        let raised = Raised::default();
        let agent = agent.map(|agent| agent_of(agent, &raised)).transpose()?;
        let make = environment.map(Source::of).transpose()?.map(|source| source.maker(raised.clone()));
        Ok(JoinInputs { agent, make, raised })
    }

    fn agent(&self, name: &str, settings: &str) -> Result<Arc<dyn Agent>> {
        self.agent.clone().map_or_else(|| relive_agents::from_json(name, settings), Ok)
    }

    fn environment(&self, name: &str) -> MakeEnvironment {
        self.make.clone().unwrap_or_else(|| Source::Native(name.to_owned()).maker(self.raised.clone()))
    }

    fn raise(&self, py: Python<'_>, error: &RlError) -> PyErr {
        self.raised.take().unwrap_or_else(|| raise(py, error))
    }
}

/// Works for the run at an address until it ends, and returns the numbers of episodes and steps. Without an agent or an
/// environment, uses the native one that the run names. If this is a node's worker, weights come from the node at
/// `weights_from`.
#[pyfunction]
#[pyo3(signature = (agent, environment, address, number, token = None, weights_from = None))]
pub(crate) fn work_for_run(
    py: Python<'_>,
    agent: Option<&Bound<'_, PyAny>>,
    environment: Option<&Bound<'_, PyAny>>,
    address: &str,
    number: u32,
    token: Option<String>,
    weights_from: Option<String>,
) -> PyResult<(u64, u64)> {
    let (given, lines) = (JoinInputs::of(agent, environment)?, logs::lines());
    let options = ClientSecurity::new(token, None)?.apply(ClientOptions::default());
    let worked = py.detach(|| {
        let client = Client::connect_with(address, options.clone())?;
        let near = weights_from.map(|node| Client::connect_with(&node, options)).transpose()?;
        let stop = Stop::new();
        let worker = Worker {
            weights_from: near.as_ref(),
            log_lines: Some(&lines),
            ..Worker::new(&client, number, &stop)
        };
        work(&worker, &|name, settings| given.agent(name, settings), &|name| Ok(given.environment(name)))
    });
    worked.map(|worked| (worked.episodes, worked.env_steps)).map_err(|error| given.raise(py, &error))
}

/// Learns in the run at an address as the learner with the given rank, until the run ends, and returns the number of
/// gradient steps. As for workers, the agent and the environment default to the native ones that the run names.
#[pyfunction]
#[pyo3(signature = (agent, environment, address, rank, token = None))]
pub(crate) fn learn_for_run(
    py: Python<'_>,
    agent: Option<&Bound<'_, PyAny>>,
    environment: Option<&Bound<'_, PyAny>>,
    address: &str,
    rank: u32,
    token: Option<String>,
) -> PyResult<u64> {
    let given = JoinInputs::of(agent, environment)?;
    let options = ClientSecurity::new(token, None)?.apply(ClientOptions::default());
    let learnt = py.detach(|| {
        let client = Client::connect_with(address, options)?;
        let follower = Follower { client: &client, rank, stop: &Stop::new() };
        learn(&follower, &|name, settings| given.agent(name, settings), &|name| Ok(given.environment(name)))
    });
    learnt.map(|learnt| learnt.steps).map_err(|error| given.raise(py, &error))
}
