//! The public type of calls.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use relive_connection::{Error, Result};
use relive_fleet::{Backend, Target};

use super::fleet::FleetCall;
use super::local::LocalCall;
use super::own::IdleStreams;
use super::remote::RemoteCall;
use crate::options::Requested;
use crate::samples::Sample;

/// The longest single wait inside [`SampleCall::finish`].
const LONG: Duration = Duration::from_secs(3600);

/// A request for samples, for a caller that blocks its thread while it waits.
///
/// For a small number of samples, a `SampleCall` is faster than `Client::sample`. The caller can wait several times,
/// and do other work between these waits. Dropping the call withdraws the request.
///
/// ```
/// use std::time::Duration;
///
/// use relive_client::{Nest, Tensor, blocking::Client};
/// # use relive_engine::Engine;
/// # use relive_table::TableConfig;
///
/// # let client = Client::in_process(Engine::builder().table(TableConfig::new("replay")).build()?)?;
/// client.insert(&Nest::Leaf(Tensor::scalar(1.0_f32)), &[("replay", 1.0)])?;
/// let mut call = client.as_async().sample_call("replay", 1, Some(Duration::from_secs(5)))?;
/// let samples = loop {
///     if let Some(samples) = call.wait(Duration::from_millis(100)) {
///         break samples?;
///     }
///     // Check here whether the user has interrupted the program.
/// };
/// assert_eq!(samples[0].columns()?[0].to_vec::<f32>()?, [1.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SampleCall {
    inner: Inner,
}

#[expect(
    clippy::large_enum_variant,
    reason = "a call within the process is short, and needs no other memory"
)]
enum Inner {
    Remote(Box<RemoteCall>),
    Local(LocalCall),
    Fleet(Box<FleetCall>),
}

impl SampleCall {
    /// Requests `num_samples` samples of `table`, as `Client::sample_call` does. `idle` holds the client's connections
    /// for calls.
    ///
    /// # Errors
    /// `InvalidArgument` for 0 samples; `NotFound` for an unknown table in this process.
    pub fn new(
        backend: &Backend,
        idle: &Arc<IdleStreams>,
        table: &str,
        num_samples: usize,
        timeout: Option<Duration>,
    ) -> Result<SampleCall> {
        if num_samples == 0 {
            return Err(Error::invalid("sample: num_samples must be at least 1"));
        }
        let requested = Requested { table: table.to_owned(), samples: num_samples, timeout };
        let inner = match backend.target() {
            Target::Server(connection) => {
                Inner::Remote(Box::new(RemoteCall::new(connection.clone(), Arc::clone(idle), requested)))
            }
            Target::Fleet(fleet) => Inner::Fleet(Box::new(FleetCall::new(fleet, requested)?)),
            Target::Process(local) => {
                let handle = local.table("sample", table)?;
                Inner::Local(LocalCall::new(handle, Arc::clone(local.who()), requested))
            }
        };
        Ok(SampleCall { inner })
    }

    /// Waits for the samples, for at most `at_most`. Returns `None` if they have not arrived by then; the method can
    /// then be called again.
    ///
    /// This blocks the thread, so do not call it inside a task of a Tokio runtime.
    ///
    /// # Errors
    /// The same errors as `Client::sample`. The `SampleCall` is complete once it has returned an error or samples.
    ///
    /// # Panics
    /// If it is called inside a task of a Tokio runtime.
    pub fn wait(&mut self, at_most: Duration) -> Option<Result<Vec<Sample>>> {
        match &mut self.inner {
            Inner::Remote(call) => call.wait(at_most),
            Inner::Local(call) => call.wait(at_most),
            Inner::Fleet(call) => call.wait(at_most),
        }
    }

    /// Waits for the samples until the call times out.
    ///
    /// # Errors
    /// The errors of [`wait`](Self::wait).
    ///
    /// # Panics
    /// Like [`wait`](Self::wait).
    pub fn finish(mut self) -> Result<Vec<Sample>> {
        loop {
            if let Some(samples) = self.wait(LONG) {
                return samples;
            }
        }
    }
}

impl fmt::Debug for SampleCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let requested = match &self.inner {
            Inner::Remote(call) => call.requested(),
            Inner::Local(call) => call.requested(),
            Inner::Fleet(call) => call.requested(),
        };
        f.debug_struct("SampleCall").field("wanted", requested).finish_non_exhaustive()
    }
}
