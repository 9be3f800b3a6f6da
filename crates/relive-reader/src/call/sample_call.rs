//! The call that users hold.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use relive_connection::{Error, Result};
use relive_fleet::{Backend, Target};

use super::fleet::FleetCall;
use super::local::LocalCall;
use super::remote::RemoteCall;
use super::stream::IdleStreams;
use crate::options::Wanted;
use crate::samples::Sample;

/// Longest single wait inside [`SampleCall::finish`].
const LONG: Duration = Duration::from_secs(3600);

/// A request for samples, for a caller that blocks its thread while it waits.
///
/// It is quicker than `Client::sample` for few samples at a time, and it can be waited for in parts, so that a caller
/// can look after other things in between. Dropping it takes the request back.
///
/// ```no_run
/// use std::time::Duration;
///
/// use relive_client::{Client, Result, Sample};
///
/// fn sample(client: &Client, is_interrupted: impl Fn() -> bool) -> Result<Option<Vec<Sample>>> {
///     let mut call = client.sample_call("replay", 1, Some(Duration::from_secs(5)))?;
///     while !is_interrupted() {
///         if let Some(samples) = call.wait(Duration::from_millis(100)) {
///             return samples.map(Some);
///         }
///     }
///     Ok(None)
/// }
/// ```
pub struct SampleCall {
    inner: Inner,
}

#[expect(clippy::large_enum_variant, reason = "a call in the process is short and takes no memory but this")]
enum Inner {
    Remote(Box<RemoteCall>),
    Local(LocalCall),
    Fleet(Box<FleetCall>),
}

impl SampleCall {
    /// Asks for `num_samples` samples of `table`: what `Client::sample_call` gives. `idle` are the client's
    /// connections for calls.
    ///
    /// # Errors
    /// `InvalidArgument` for no samples, `NotFound` for an unknown table of this process.
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
        let wanted = Wanted { table: table.to_owned(), samples: num_samples, timeout };
        let inner = match backend.target() {
            Target::Server(connection) => {
                Inner::Remote(Box::new(RemoteCall::new(connection.clone(), Arc::clone(idle), wanted)))
            }
            Target::Fleet(fleet) => Inner::Fleet(Box::new(FleetCall::new(fleet, wanted)?)),
            Target::Process(local) => {
                let handle = local.table("sample", table)?;
                Inner::Local(LocalCall::new(handle, Arc::clone(local.who()), wanted))
            }
        };
        Ok(SampleCall { inner })
    }

    /// Waits for the samples, but no longer than `at_most`: then it gives none and can be asked again. Blocks the
    /// thread, so it must not be called inside of a Tokio runtime's task.
    ///
    /// # Errors
    /// As `Client::sample`. The call is over then, as it is after samples were given.
    ///
    /// # Panics
    /// Inside of a Tokio runtime's task.
    pub fn wait(&mut self, at_most: Duration) -> Option<Result<Vec<Sample>>> {
        match &mut self.inner {
            Inner::Remote(call) => call.wait(at_most),
            Inner::Local(call) => call.wait(at_most),
            Inner::Fleet(call) => call.wait(at_most),
        }
    }

    /// Waits for the samples as long as the call may take.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    ///
    /// # Panics
    /// As [`wait`](Self::wait).
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
        let wanted = match &self.inner {
            Inner::Remote(call) => call.wanted(),
            Inner::Local(call) => call.wanted(),
            Inner::Fleet(call) => call.wanted(),
        };
        f.debug_struct("SampleCall").field("wanted", wanted).finish_non_exhaustive()
    }
}
