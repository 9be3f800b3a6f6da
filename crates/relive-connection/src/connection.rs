//! The connection to a server.

use std::fmt::{self, Display};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use relive_tensor::{Codec, CodecSet};
use relive_wire::codec::known_to_peer;
use relive_wire::v1::DescribeRequest;
use relive_wire::v1::replay_service_client::ReplayServiceClient;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};
use tonic::{Code, Response, Status};

use crate::Result;
use crate::answer::{is_unanswered, status_error, timeout_error};
use crate::channel::{Channels, GrpcChannel};
use crate::dialer::{Dialer, Transports};
use crate::options::ClientOptions;
use crate::remembered::Remembered;
use crate::remote::{self, Remote, ReverbStub};
use crate::transport::Transport;
use crate::waiting::{Backoff, Deadline};

/// The connection to one server: Relive's or dm-reverb's.
///
/// Cheap to clone; clones share the connection, which is established on the first call, and again after it is lost.
#[derive(Clone)]
pub struct Connection {
    pub(crate) shared: Arc<Shared>,
    /// The channel for calls, which is usually the shared one.
    channel: GrpcChannel,
}

pub(crate) struct Shared {
    options: ClientOptions,
    /// The runtime in which the connection was created.
    runtime: Handle,
    remote: Remote,
    transports: Transports,
    pub(crate) remembered: Remembered,
}

impl Connection {
    /// Creates the connection to the server at `address`: `host:port`, `http://host:port` or `https://host:port`. Must
    /// be called inside a Tokio runtime.
    ///
    /// # Errors
    /// `InvalidArgument` for a malformed address. If the server does not answer, only the first call fails.
    pub fn new(address: &str, options: ClientOptions) -> Result<Connection> {
        let remote = Remote::new(address, &options)?;
        let (transports, remembered) = (Transports::default(), Remembered::default());
        let runtime = Handle::current();
        Ok(Connection::of(Arc::new(Shared { options, runtime, remote, transports, remembered })))
    }

    pub(crate) fn of(shared: Arc<Shared>) -> Connection {
        let channel = shared.remote.channel().clone();
        Connection { shared, channel }
    }

    /// Returns the same connection, but with another channel for calls.
    #[must_use]
    pub fn with_channel(&self, channel: GrpcChannel) -> Connection {
        Connection { shared: Arc::clone(&self.shared), channel }
    }

    /// Returns the runtime for the tasks of writers and samplers: the caller's or, for a thread outside any runtime, the
    /// one in which the connection was created.
    pub fn runtime(&self) -> Handle {
        Handle::try_current().unwrap_or_else(|_| self.shared.runtime.clone())
    }

    /// Returns the address as a URI.
    pub fn address(&self) -> &str {
        self.shared.remote.uri()
    }

    /// Returns its options.
    pub fn options(&self) -> &ClientOptions {
        &self.shared.options
    }

    /// Returns the channel for calls.
    pub fn channel(&self) -> GrpcChannel {
        self.channel.clone()
    }

    /// Returns the factory of channels with their own connections.
    pub fn channels(&self) -> &Channels {
        self.shared.remote.channels()
    }

    /// Returns a client for dm-reverb's protocol on the channel.
    pub fn stub(&self) -> ReverbStub {
        remote::stub(self.channel())
    }

    /// Returns a client for dm-reverb's protocol on a separate connection.
    pub fn dedicated_stub(&self) -> ReverbStub {
        remote::stub(self.channels().make())
    }

    /// Returns a client for Relive's own calls on the channel.
    pub fn replay_stub(&self) -> ReplayServiceClient<GrpcChannel> {
        remote::replay_stub(self.channel())
    }

    /// Returns the transport of bulk data, or `Tcp` if it has not been negotiated yet.
    pub fn transport(&self) -> Transport {
        self.shared.transports.known().map_or(Transport::Tcp, |dialer| dialer.transport())
    }

    /// Negotiates the transport of bulk data with the server on the first call. Returns its dialer, or `None` for a
    /// server that supports only gRPC.
    ///
    /// # Errors
    /// `FailedPrecondition` if the transport in the options does not reach the server, or another error if the server
    /// is unreachable.
    pub async fn dialer(&self) -> Result<Option<Dialer>> {
        let Shared { options, remote, transports, .. } = &*self.shared;
        transports.find(remote, options.transport, options.connect_timeout).await
    }

    /// Records that only gRPC reaches the server, and logs why.
    pub fn use_grpc_only(&self, why: &dyn Display) {
        self.shared.transports.use_grpc_only();
        self.warn_of_grpc_only(why);
    }

    /// Logs that data is sent over gRPC although the server has a faster transport.
    pub fn warn_of_grpc_only(&self, why: &dyn Display) {
        tracing::warn!("the connections to {} use gRPC alone, which is slower: {why}", self.address());
    }

    /// Discards the negotiated transport, so that it is negotiated again after a connection has failed.
    pub fn forget_dialer(&self) {
        self.shared.transports.forget();
    }

    /// Checks that the server supports this codec, and fails with `Unimplemented` if it does not. Codecs that every
    /// server supports need no check. The server is queried once before each stream, since it may be a different server
    /// than for the previous stream.
    ///
    /// # Errors
    /// The server's error.
    pub async fn check_codec(&self, codec: Option<Codec>) -> Result<(), Status> {
        let Some(codec) = codec.filter(|codec| !CodecSet::REVERB.contains(*codec)) else { return Ok(()) };
        let known = match self.replay_stub().describe(DescribeRequest {}).await {
            Ok(answer) => known_to_peer(&answer.into_inner().codecs),
            Err(status) if status.code() == Code::Unimplemented => CodecSet::REVERB,
            Err(status) => return Err(status),
        };
        if known.contains(codec) {
            return Ok(());
        }
        Err(Status::unimplemented(format!(
            "the server at {} accepts chunks compressed with {known}, but not {codec}: dm-reverb's servers and \
             old versions of Relive support no other codec; use the writer's default codec",
            self.address()
        )))
    }

    /// Repeats a call until there is a response, and waits if the server is not available yet.
    ///
    /// `attempt` returns an owned future, so that calls can be spawned on any scheduler.
    ///
    /// # Errors
    /// The server's error; `Timeout` if it does not respond within `timeout`.
    pub async fn call<T, F>(&self, operation: &str, timeout: Duration, attempt: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        self.call_while(operation, timeout, is_unanswered, attempt).await
    }

    /// Repeats a call while `calls_again` returns true for the result.
    pub(crate) async fn call_while<T, F>(
        &self,
        operation: &str,
        timeout: Duration,
        calls_again: impl Fn(&Status) -> bool,
        attempt: impl Fn() -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let deadline = Deadline::after(timeout);
        let mut backoff = Backoff::default();
        let mut trouble = None;
        let late = |trouble: Option<&Status>| timeout_error(operation, timeout, self.address(), trouble);
        loop {
            let started = Instant::now();
            match deadline.run(attempt()).await {
                Some(Ok(answer)) => return Ok(answer.into_inner()),
                Some(Err(status)) if calls_again(&status) => trouble = Some(status),
                Some(Err(status)) => return Err(status_error(operation, status)),
                None => return Err(late(trouble.as_ref())),
            }
            if deadline.run(sleep(backoff.wait_after(started.elapsed()))).await.is_none() {
                return Err(late(trouble.as_ref()));
            }
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("address", &self.address()).finish_non_exhaustive()
    }
}
