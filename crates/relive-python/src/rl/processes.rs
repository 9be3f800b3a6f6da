//! Runs whose workers are processes of Python: the tables that they are served, and what each of them does.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use parking_lot::Mutex;
use pyo3::prelude::*;
use relive_client::blocking::Client;
use relive_rl::processes::{Worker, work};
use relive_rl::run::{Begun, Stop, Watch};
use relive_server::{Entrances, ServerOptions};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

use super::foreign::Raised;
use super::raise::raise;
use super::run::{agent_of, within};
use super::source::Source;
use crate::error::invalid;

/// Serves the tables of a run at a free port of this machine, for as long as it lives.
pub(super) struct Serving {
    runtime: Option<Runtime>,
    listener: Arc<Mutex<Option<TcpListener>>>,
    address: SocketAddr,
}

impl Serving {
    pub(super) fn start() -> PyResult<Serving> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = runtime.block_on(relive_server::bind(anywhere)).map_err(invalid)?;
        let address = listener.local_addr()?;
        Ok(Serving { runtime: Some(runtime), listener: Arc::new(Mutex::new(Some(listener))), address })
    }

    /// Serves the tables that it is shown.
    pub(super) fn watch(&self) -> Watch {
        let handle = self.runtime.as_ref().map(|runtime| runtime.handle().clone());
        let bound = Arc::clone(&self.listener);
        Watch::new(move |engine| {
            let (Some(listener), Some(handle)) = (bound.lock().take(), &handle) else { return };
            let engine = engine.clone();
            handle.spawn(async move {
                let (entrances, options) = (Entrances::from(listener), ServerOptions::default());
                let served = relive_server::serve(entrances, engine, options, std::future::pending());
                if let Err(error) = served.await {
                    tracing::warn!(target: "relive", %error, "the run's tables are not served any more");
                }
            });
        })
    }

    /// Calls a function of Python with the address when the run has something to join.
    pub(super) fn begun(&self, start: Py<PyAny>, raised: &Raised, stop: &Stop) -> Begun {
        let (address, raised, stop) = (self.address.to_string(), raised.clone(), stop.clone());
        Begun::new(move || {
            if raised.call(|py| start.call1(py, (&address,))).is_err() {
                stop.stop();
            }
        })
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.runtime.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

/// Works for the run at an address until it is over; episodes and steps.
#[pyfunction]
pub(crate) fn work_for_run(
    py: Python<'_>,
    agent: &Bound<'_, PyAny>,
    environment: &Bound<'_, PyAny>,
    address: &str,
    number: u32,
) -> PyResult<(u64, u64)> {
    let raised = Raised::default();
    let (own, _) = agent_of(agent, &raised)?;
    let make = Source::of(environment)?.maker(raised.clone());
    let worked = py.detach(|| {
        within(true, || {
            let client = Client::connect(address)?;
            let agents = |_: &str, _: &str| Ok(Arc::clone(&own));
            let environments = |_: &str| Ok(make.clone());
            let worker = Worker { client: &client, number, is_supervised: false, stop: &Stop::new() };
            work(&worker, &agents, &environments)
        })
    });
    match worked {
        Ok(worked) => Ok((worked.episodes, worked.env_steps)),
        Err(error) => Err(raised.take().unwrap_or_else(|| raise(py, &error))),
    }
}
