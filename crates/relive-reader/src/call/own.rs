//! Connections that the threads of their calls drive.

use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use relive_connection::{Channels, Error, ErrorKind, GrpcChannel, Result};
use tokio::runtime::Runtime;

use super::stream::{Exchange, Stream};

/// A connection that makes progress only while a call is waiting on it.
pub(super) struct OwnStream {
    // This field is dropped before the runtime, because it uses one of the runtime's connections.
    stream: Option<Stream>,
    channel: GrpcChannel,
    runtime: OwnRuntime,
}

impl OwnStream {
    pub(super) fn new(channels: &Channels) -> Result<OwnStream> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| {
            let text = format!("cannot connect: {error}");
            Error::with_source(ErrorKind::ResourceExhausted, text, error)
        })?;
        let channel = {
            let _inside = runtime.enter();
            channels.make()
        };
        Ok(OwnStream { stream: None, channel, runtime: OwnRuntime(Some(runtime)) })
    }

    /// Runs the future that `act` creates, and the connection, on this thread.
    pub(super) fn drive<'a, F: Future>(&'a mut self, act: impl FnOnce(Exchange<'a>) -> F) -> F::Output {
        let OwnStream { stream, channel, runtime } = self;
        let runtime = runtime.0.as_ref().expect("the runtime is taken only on drop");
        runtime.block_on(act(Exchange::new(stream, channel)))
    }

    /// Returns the channel, whose calls must run in [`drive`](Self::drive).
    pub(super) fn channel(&self) -> &GrpcChannel {
        &self.channel
    }

    /// Returns how long the stream has been open.
    pub(super) fn life(&self) -> Duration {
        self.stream.as_ref().map_or(Duration::ZERO, Stream::life)
    }

    /// Returns whether nothing is outstanding, so that another call can use the connection.
    pub(super) fn is_idle(&self) -> bool {
        self.stream.as_ref().is_none_or(|stream| !stream.has_outstanding())
    }
}

/// The largest number of idle connections. This many threads can make calls without reconnecting.
const MAX_IDLE: usize = 8;

/// The idle connections of a client.
#[derive(Default)]
pub struct IdleStreams {
    idle: Mutex<Vec<OwnStream>>,
}

impl IdleStreams {
    fn put(&self, stream: OwnStream) {
        let mut idle = self.idle.lock();
        if idle.len() < MAX_IDLE {
            idle.push(stream);
            return;
        }
        // Closing a connection takes a while.
        drop(idle);
        drop(stream);
    }
}

/// A connection in use by one call, which is then idle again.
pub(super) struct LentStream {
    idle: Arc<IdleStreams>,
    /// Taken only on drop.
    stream: Option<OwnStream>,
}

impl LentStream {
    /// Takes the most recently used connection, which is the most likely to be alive, or creates one.
    pub(super) fn take(idle: &Arc<IdleStreams>, channels: &Channels) -> Result<LentStream> {
        let recent = idle.idle.lock().pop();
        let stream = recent.map_or_else(|| OwnStream::new(channels), Ok)?;
        Ok(LentStream { idle: Arc::clone(idle), stream: Some(stream) })
    }
}

impl Deref for LentStream {
    type Target = OwnStream;

    fn deref(&self) -> &OwnStream {
        self.stream.as_ref().expect("the connection is taken only on drop")
    }
}

impl DerefMut for LentStream {
    fn deref_mut(&mut self) -> &mut OwnStream {
        self.stream.as_mut().expect("the connection is taken only on drop")
    }
}

impl Drop for LentStream {
    /// Closes a connection with outstanding samples, which withdraws the request. Any other connection is kept for the
    /// next call.
    fn drop(&mut self) {
        if let Some(stream) = self.stream.take().filter(OwnStream::is_idle) {
            self.idle.put(stream);
        }
    }
}

/// A scheduler that runs on the waiting thread.
struct OwnRuntime(Option<Runtime>);

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        // The last owner may be a task on another runtime, which must not block.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
