//! A server at an address, and the calls that are made to it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use relive_tensor::{Codec, CodecSet};
use relive_wire::codec::known_to_peer;
use relive_wire::v1::DescribeRequest;
use relive_wire::v1::replay_service_client::ReplayServiceClient;
use tokio::time::{Instant, sleep};
use tonic::{Code, Response, Status};

use crate::Result;
use crate::answer::{is_unanswered, status_error, timeout_error};
use crate::channel::{Channels, GrpcChannel};
use crate::dialer::{Dialer, Transports};
use crate::options::ClientOptions;
use crate::remembered::Remembered;
use crate::remote::{Remote, Stub};
use crate::transport::Transport;
use crate::waiting::{Backoff, Deadline};

/// The connection to one server: Relive's or dm-reverb's.
///
/// Cheap to clone; clones share it. Nothing is connected before the first call, and a lost connection is made again
/// by the next one.
#[derive(Clone)]
pub struct Connection {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    options: ClientOptions,
    remote: Remote,
    transports: Transports,
    pub(crate) remembered: Remembered,
}

impl Connection {
    /// The connection to the server at `address`: `host:port`, `http://host:port` or `https://host:port`. Must be
    /// called inside a Tokio runtime.
    ///
    /// # Errors
    /// `InvalidArgument` for an address that cannot be one. Whether a server is there shows with the first call.
    pub fn new(address: &str, options: ClientOptions) -> Result<Connection> {
        let remote = Remote::new(address, &options)?;
        let (transports, remembered) = (Transports::default(), Remembered::default());
        Ok(Connection { shared: Arc::new(Shared { options, remote, transports, remembered }) })
    }

    /// The address as a URI.
    pub fn address(&self) -> &str {
        self.shared.remote.uri()
    }

    /// How many bytes and how much time its calls may take.
    pub fn options(&self) -> &ClientOptions {
        &self.shared.options
    }

    /// The channel of its calls.
    pub fn channel(&self) -> GrpcChannel {
        self.shared.remote.channel()
    }

    /// Makes channels with connections of their own.
    pub fn channels(&self) -> &Channels {
        self.shared.remote.channels()
    }

    /// dm-reverb's protocol on the channel.
    pub fn stub(&self) -> Stub {
        self.shared.remote.stub()
    }

    /// dm-reverb's protocol on a connection that carries nothing else.
    pub fn stub_of_its_own(&self) -> Stub {
        self.shared.remote.stub_of_its_own()
    }

    /// Relive's own calls on the channel.
    pub fn own_stub(&self) -> ReplayServiceClient<GrpcChannel> {
        self.shared.remote.own_stub()
    }

    /// The transport of bulk data, as far as it is known: `Tcp` before it was negotiated.
    pub fn transport(&self) -> Transport {
        self.shared.transports.known().map_or(Transport::Tcp, |dialer| dialer.transport())
    }

    /// Negotiates the transport of bulk data with the server, the first time; gives what opens connections of it.
    /// None for a server that speaks gRPC only.
    ///
    /// # Errors
    /// The server is away; `FailedPrecondition` if the transport that the options choose does not reach it.
    pub async fn dialer(&self) -> Result<Option<Dialer>> {
        let Shared { options, remote, transports, .. } = &*self.shared;
        transports.find(remote, options.transport, options.connect_timeout).await
    }

    /// Takes note that nothing but gRPC reaches the server.
    pub fn use_grpc_only(&self) {
        self.shared.transports.use_grpc_only();
    }

    /// Has the transport negotiated again, after a connection has failed.
    pub fn forget_dialer(&self) {
        self.shared.transports.forget();
    }

    /// Whether the server takes chunks of this codec, if it has to be asked at all: `Unimplemented` if it does not. One
    /// attempt, before each stream, as it may be another server than the one of the stream before.
    ///
    /// # Errors
    /// What the server answers.
    pub async fn check_codec(&self, codec: Option<Codec>) -> Result<(), Status> {
        let Some(codec) = codec.filter(|codec| !CodecSet::REVERB.contains(*codec)) else { return Ok(()) };
        let known = match self.own_stub().describe(DescribeRequest {}).await {
            Ok(answer) => known_to_peer(&answer.into_inner().codecs),
            Err(status) if status.code() == Code::Unimplemented => CodecSet::REVERB,
            Err(status) => return Err(status),
        };
        if known.contains(codec) {
            return Ok(());
        }
        Err(Status::unimplemented(format!(
            "the server at {} takes chunks compressed with {known}, not {codec}: dm-reverb's servers and old ones of Relive \
             know no other codec; leave the writer's codec at its default",
            self.address()
        )))
    }

    /// Calls until there is an answer: a server that is not there yet is waited for.
    ///
    /// `attempt` gives an owned future, so that calls can be spawned on any scheduler.
    ///
    /// # Errors
    /// What the server answers; `Timeout` when it does not within `timeout`.
    pub async fn call<T, F>(&self, operation: &str, timeout: Duration, attempt: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        self.call_while(operation, timeout, is_unanswered, attempt).await
    }

    /// Calls again for as long as `calls_again` says so of what came of it.
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
