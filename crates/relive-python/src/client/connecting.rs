//! The client: an address, and a connection that is opened when it is needed.

use std::future::Future;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use relive_client::{Client as RustClient, ClientOptions, UnaryCall};
use relive_engine::Engine;

use super::choices::Choice;
use super::rules::Rules;
use crate::arguments::Timeout;
use crate::connection::address;
use crate::connection::in_process::{self, LocalServer};
use crate::connection::security::ClientSecurity;
use crate::error::OrRaise;
use crate::interpreter::lock::Brief;
use crate::interpreter::wait::{self, seconds};

/// A client for one server or for many.
#[pyclass(frozen, module = "relive._native")]
pub(crate) struct Client {
    address: String,
    choice: Choice,
    /// The timeout for calls that do not set one.
    pub(super) timeout: Duration,
    /// Whether the client behaves like dm-reverb's where the two differ.
    pub(super) as_reverb: bool,
    security: ClientSecurity,
    connected: Brief<Option<Connected>>,
    pub(super) rules: Rules,
}

struct Connected {
    process: u32,
    client: RustClient,
    /// The engine in this process to which the client is connected.
    engine: Option<Engine>,
}

impl Connected {
    fn is_of(&self, engine: Option<&Engine>) -> bool {
        match (&self.engine, engine) {
            (Some(mine), Some(other)) => in_process::is_same(mine, other),
            (mine, other) => mine.is_none() && other.is_none(),
        }
    }
}

impl Client {
    pub(super) fn over(
        address: &str,
        choice: Choice,
        timeout: Duration,
        as_reverb: bool,
        security: ClientSecurity,
    ) -> Client {
        let address = address::of_one_server(address).to_owned();
        let (connected, rules) = (Brief::default(), Rules::default());
        Client { address, choice, timeout, as_reverb, security, connected, rules }
    }

    /// Returns the connection. The connection is replaced after a fork, and when a server starts or stops in this
    /// process.
    pub(crate) fn connect(&self, py: Python<'_>) -> PyResult<RustClient> {
        let process = std::process::id();
        let place = address::local_place(&self.address).filter(|_| self.choice.may_be_in_process());
        let (local, is_stopped) = match place.map_or(LocalServer::Unknown, in_process::at) {
            LocalServer::Serves(engine) => (Some(engine), false),
            LocalServer::Stopped => (None, true),
            LocalServer::Unknown => (None, false),
        };
        let known = self.connected.with(|connected| {
            let current = connected.as_ref().filter(|current| current.process == process)?;
            current.is_of(local.as_ref()).then(|| current.client.clone())
        });
        if let Some(client) = known {
            return Ok(client);
        }
        if is_stopped && !self.as_reverb {
            address::check_for_successor(py, &self.address, place)?;
        }
        let engine = local.clone();
        let client = match local {
            Some(engine) => RustClient::in_process_with(engine, self.options()),
            None if self.choice == Choice::InProcess => {
                return Err(PyValueError::new_err(format!("this process has no server at {}", self.address)));
            }
            None => {
                let runtime = wait::runtime()?;
                let _inside = runtime.enter();
                RustClient::connect_with(&self.address, self.options()).or_raise(py)?
            }
        };
        let old = self.connected.replace(Some(Connected { process, client: client.clone(), engine }));
        if let Some(old) = old
            && old.process != process
        {
            // After a fork, `old` is the parent's connection, whose tasks do not run in this process.
            std::mem::forget(old);
        }
        Ok(client)
    }

    /// Waits for the server's answer; logs a long wait with the address.
    pub(super) fn ask<F>(&self, py: Python<'_>, call: &str, answer: F) -> PyResult<F::Output>
    where
        F: Future + Send,
        F::Output: Send,
    {
        wait::wait_because(py, call, answer, || self.no_answer())
    }

    /// Waits for the answer of `call` or, without a call for this thread, for `answer`.
    pub(super) fn finish<T: Send>(
        &self,
        py: Python<'_>,
        what: &str,
        call: Option<UnaryCall<T>>,
        answer: impl Future<Output = relive_client::Result<T>> + Send,
    ) -> PyResult<relive_client::Result<T>> {
        match call {
            Some(mut call) => wait::wait_by(py, what, None, |slice| call.wait(slice), || self.no_answer()),
            None => wait::now_or_wait(py, what, answer, || self.no_answer()),
        }
    }

    pub(super) fn no_answer(&self) -> wait::Reason<'static> {
        let text = format!("the server at {} has not answered: it is unreachable or busy", self.address);
        Box::pin(std::future::ready(text))
    }

    fn options(&self) -> ClientOptions {
        let options = self.security.apply(ClientOptions::default().timeout(self.timeout));
        match self.choice {
            Choice::Server(choice) => options.transport(choice),
            Choice::Auto | Choice::InProcess => options,
        }
    }

    /// Returns a client whose calls may take `timeout` seconds; without a timeout, the client's own limit applies.
    pub(super) fn within(&self, py: Python<'_>, timeout: Option<Timeout>) -> PyResult<RustClient> {
        Ok(self.connect(py)?.with_timeout(self.limit(timeout)?))
    }

    /// Returns `timeout`, which is in seconds, or the client's own limit.
    pub(super) fn limit(&self, timeout: Option<Timeout>) -> PyResult<Duration> {
        timeout.map_or(Ok(self.timeout), |timeout| seconds(Some(timeout.0)))
    }
}
