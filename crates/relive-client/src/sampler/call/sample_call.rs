//! The call that users hold.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::local::LocalCall;
use super::many::ManyCall;
use super::remote::RemoteCall;
use crate::client::{Client, Connection};
use crate::{Error, Result, Sample};

/// Longest single wait inside [`SampleCall::finish`].
const LONG: Duration = Duration::from_secs(3600);

/// A request for samples, for a caller who blocks his thread while he waits.
///
/// It is quicker than [`Client::sample`] for few samples at a time, and it can be waited for in parts, so that a caller
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
    Many(Box<ManyCall>),
}

/// What a call is to bring.
#[derive(Debug)]
pub(super) struct Wish {
    pub(super) table: String,
    pub(super) samples: usize,
    pub(super) timeout: Option<Duration>,
}

impl SampleCall {
    /// Waits for the samples, but no longer than `at_most`: then it gives none and can be asked again. Blocks the thread, so
    /// it must not be called inside of a Tokio runtime's task.
    ///
    /// # Errors
    /// As [`Client::sample`]. The call is over then, as it is after samples were given.
    ///
    /// # Panics
    /// Inside of a Tokio runtime's task.
    pub fn wait(&mut self, at_most: Duration) -> Option<Result<Vec<Sample>>> {
        match &mut self.inner {
            Inner::Remote(call) => call.wait(at_most),
            Inner::Local(call) => call.wait(at_most),
            Inner::Many(call) => call.wait(at_most),
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

impl Client {
    /// Asks for `num_samples` samples of `table`, to be waited for on the spot. With a timeout, the rate limiter may hold them
    /// back no longer than this; without one, as long as it likes.
    ///
    /// # Errors
    /// `InvalidArgument` for no samples, `NotFound` for an unknown table of this process.
    pub fn sample_call(
        &self,
        table: &str,
        num_samples: usize,
        timeout: Option<Duration>,
    ) -> Result<SampleCall> {
        if num_samples == 0 {
            return Err(Error::invalid("sample: num_samples must be at least 1"));
        }
        let wish = Wish { table: table.to_owned(), samples: num_samples, timeout };
        let inner = match self.connection() {
            Connection::Remote(_) => Inner::Remote(Box::new(RemoteCall::new(self.clone(), wish))),
            Connection::Many(many) => Inner::Many(Box::new(ManyCall::new(many, wish)?)),
            Connection::Local(local) => {
                let handle = local.table("sample", table)?.clone();
                Inner::Local(LocalCall::new(handle, Arc::clone(local.who()), wish))
            }
        };
        Ok(SampleCall { inner })
    }
}

impl fmt::Debug for SampleCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wish = match &self.inner {
            Inner::Remote(call) => call.wish(),
            Inner::Local(call) => call.wish(),
            Inner::Many(call) => call.wish(),
        };
        f.debug_struct("SampleCall").field("wish", wish).finish_non_exhaustive()
    }
}
