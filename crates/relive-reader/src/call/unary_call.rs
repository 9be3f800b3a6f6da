//! Calls with one response.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use relive_connection::{Connection, Result};
use tokio::time::timeout;

use super::own::{IdleStreams, LentStream};

/// A call to one server with one request and one response, for a caller that blocks its thread while it waits.
///
/// It is faster than an async call, whose request and response pass through the threads of a runtime. The caller can wait
/// several times, and do other work between these waits. Dropping the call abandons it: the server may or may not have
/// answered the request.
pub struct UnaryCall<T> {
    // This field is dropped first, because it uses the connection.
    answer: Pin<Box<dyn Future<Output = Result<T>> + Send>>,
    stream: LentStream,
}

impl<T> UnaryCall<T> {
    /// Makes the call that `ask` describes. The server may receive it twice, if an idle connection turns out to be
    /// broken. `idle` holds the client's connections for calls.
    ///
    /// # Errors
    /// `ResourceExhausted` if the process cannot have another connection.
    pub fn new<F>(
        connection: &Connection,
        idle: &Arc<IdleStreams>,
        ask: impl FnOnce(Connection) -> F,
    ) -> Result<UnaryCall<T>>
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let stream = LentStream::take(idle, connection.channels())?;
        let answer = Box::pin(ask(connection.with_channel(stream.channel().clone())));
        Ok(UnaryCall { answer, stream })
    }

    /// Waits for the response, for at most `at_most`. Returns `None` if it has not arrived by then; the method can then
    /// be called again.
    ///
    /// This blocks the thread, so do not call it inside a task of a Tokio runtime.
    ///
    /// # Errors
    /// The errors of the async call. The `UnaryCall` is complete once it has returned an error or a response.
    ///
    /// # Panics
    /// If it is called inside a task of a Tokio runtime, or again after the response.
    pub fn wait(&mut self, at_most: Duration) -> Option<Result<T>> {
        let answer = self.answer.as_mut();
        self.stream.drive(|_| async { timeout(at_most, answer).await.ok() })
    }

    /// Waits for the response until the call times out.
    ///
    /// # Errors
    /// The errors of [`wait`](Self::wait).
    ///
    /// # Panics
    /// Like [`wait`](Self::wait).
    pub fn finish(mut self) -> Result<T> {
        let answer = self.answer.as_mut();
        self.stream.drive(|_| answer)
    }
}

impl<T> fmt::Debug for UnaryCall<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnaryCall").finish_non_exhaustive()
    }
}
