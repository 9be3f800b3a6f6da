//! A connection with one sample stream, which the calling thread drives.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use relive_connection::{Channels, Error, ErrorKind, GrpcChannel, Result};
use relive_wire::reverb::SampleStreamRequest;
use relive_wire::sample::{Assembler, ReceivedSample};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;
use tonic::Status;

use crate::samples::Sample;
use crate::stream::StreamEnd;
use crate::stream::{Responses, SAMPLE_STREAM};

/// A connection that makes progress only while a call is waiting on it.
pub(super) struct OwnStream {
    // This field is dropped before the runtime, because it uses one of the runtime's connections.
    stream: Option<Stream>,
    channel: GrpcChannel,
    runtime: OwnRuntime,
}

/// A scheduler that runs on the waiting thread.
struct OwnRuntime(Option<Runtime>);

/// An open sample stream.
pub(super) struct Stream {
    requests: UnboundedSender<SampleStreamRequest>,
    responses: Answers,
    assembler: Assembler,
    received: Vec<ReceivedSample>,
    /// The number of samples that have been requested but have not arrived.
    outstanding: usize,
    /// Whether the outstanding request has been withdrawn.
    is_taken_back: bool,
    established: Established,
}

/// The time of the first request on a stream: requests are polled only on an established connection.
type Established = Arc<OnceLock<Instant>>;

enum Answers {
    Opening(Opening),
    Open(Responses),
}

type Opening = Pin<Box<dyn Future<Output = std::result::Result<Responses, Status>> + Send>>;

impl OwnStream {
    pub(super) fn new(channels: &Channels) -> Result<OwnStream> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| {
            let text = format!("sample: cannot connect: {error}");
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
        runtime.block_on(act(Exchange { stream, channel }))
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
    /// Takes the most recently used connection, which is the most likely to be alive.
    pub(super) fn take(&self) -> Option<OwnStream> {
        self.idle.lock().pop()
    }

    pub(super) fn put(&self, stream: OwnStream) {
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

/// One call's use of a connection.
pub(super) struct Exchange<'a> {
    stream: &'a mut Option<Stream>,
    channel: &'a GrpcChannel,
}

impl<'a> Exchange<'a> {
    pub(super) fn new(stream: &'a mut Option<Stream>, channel: &'a GrpcChannel) -> Exchange<'a> {
        Exchange { stream, channel }
    }

    /// Returns the number of samples that have been requested but have not arrived.
    pub(super) fn outstanding(&self) -> usize {
        self.stream.as_ref().map_or(0, |stream| stream.outstanding)
    }

    /// Requests samples, on the open stream or on a new one.
    pub(super) fn ask(&mut self, samples: usize, request: SampleStreamRequest) {
        let stream = self.stream.get_or_insert_with(|| Stream::open(self.channel));
        stream.outstanding += samples;
        // If the other end is gone, this is reported when the responses are read.
        let _ = stream.requests.send(request);
    }

    /// Waits for a message and adds its samples. Dropping the future loses nothing. After an error, the caller must
    /// close the stream.
    pub(super) async fn receive(
        &mut self,
        into: &mut VecDeque<Sample>,
    ) -> std::result::Result<(), StreamEnd> {
        match &mut self.stream {
            Some(stream) => stream.receive(into).await,
            None => Ok(()),
        }
    }

    /// Closes the stream. Returns how long it was open.
    pub(super) fn close(&mut self) -> Duration {
        self.stream.take().map_or(Duration::ZERO, |stream| stream.life())
    }
}

impl Stream {
    fn open(channel: &GrpcChannel) -> Stream {
        let mut channel = channel.clone();
        Stream::new(|queue| {
            Box::pin(async move { Responses::open(&mut channel, SAMPLE_STREAM, queue).await })
        })
    }

    fn new(open: impl FnOnce(Queue) -> Opening) -> Stream {
        let (requests, queue) = unbounded_channel();
        let established = Established::default();
        let queue = Queue { requests: queue, established: Arc::clone(&established) };
        Stream {
            requests,
            responses: Answers::Opening(open(queue)),
            assembler: Assembler::default(),
            received: Vec::new(),
            outstanding: 0,
            is_taken_back: false,
            established,
        }
    }

    /// Withdraws the outstanding request on `slot` by sending `request`. The server ends the stream with the samples
    /// that it has taken so far. A server that does not support this sends all requested samples.
    pub(super) fn take_back(slot: &mut Option<Stream>, request: SampleStreamRequest) {
        if let Some(stream) = slot.as_mut().filter(|stream| stream.has_outstanding() && !stream.is_taken_back)
        {
            stream.is_taken_back = true;
            // If the other end is gone, this is reported when the responses are read.
            let _ = stream.requests.send(request);
        }
    }

    /// Waits for the end of a stream with a withdrawn request, and adds the samples that arrive until then to `into`.
    /// Dropping the future loses nothing.
    pub(super) async fn finish_taken_back(slot: &mut Option<Stream>, into: &mut VecDeque<Sample>) {
        while let Some(stream) = slot.as_mut().filter(|stream| stream.is_taken_back) {
            if !stream.has_outstanding() || stream.receive(into).await.is_err() {
                *slot = None;
            }
        }
    }

    /// Returns how long the stream has been open on an established connection.
    fn life(&self) -> Duration {
        self.established.get().map_or(Duration::ZERO, Instant::elapsed)
    }

    /// Returns whether the stream has outstanding samples.
    fn has_outstanding(&self) -> bool {
        self.outstanding > 0 || self.assembler.is_mid_sample()
    }

    async fn receive(&mut self, into: &mut VecDeque<Sample>) -> std::result::Result<(), StreamEnd> {
        let message = match &mut self.responses {
            Answers::Opening(opening) => {
                self.responses = Answers::Open(opening.as_mut().await?);
                return Ok(());
            }
            Answers::Open(responses) => responses.message().await?,
        };
        let message = message.ok_or_else(|| Status::unavailable("the server ended the stream"))?;
        self.assembler.push(&message, &mut self.received)?;
        let outstanding =
            self.outstanding.checked_sub(self.received.len()).ok_or_else(StreamEnd::too_many)?;
        self.outstanding = outstanding;
        into.extend(self.received.drain(..).map(Sample::received));
        Ok(())
    }
}

/// The requests on a stream.
struct Queue {
    requests: UnboundedReceiver<SampleStreamRequest>,
    established: Established,
}

impl futures_core::Stream for Queue {
    type Item = SampleStreamRequest;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<SampleStreamRequest>> {
        let request = self.requests.poll_recv(cx);
        if request.is_ready() {
            self.established.get_or_init(Instant::now);
        }
        request
    }
}

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        // The last owner may be a task on another runtime, which must not block.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn};
    use std::pin::pin;

    use relive_connection::{ClientOptions, Connection};
    use tokio::time::{advance, timeout};

    use super::super::remote::Progress;
    use super::*;
    use crate::options::Requested;

    const PATIENCE: Duration = Duration::from_secs(30);

    /// Waits on a stream that breaks after `life` without an answer. Returns whether the call then still waits.
    async fn outlasts(progress: &mut Progress, life: Duration, is_accepted: bool) -> bool {
        let channel = Connection::new("127.0.0.1:1", ClientOptions::default()).unwrap().channel();
        let mut stream = Some(Stream::new(|mut queue| {
            Box::pin(async move {
                if is_accepted {
                    poll_fn(|cx| futures_core::Stream::poll_next(Pin::new(&mut queue), cx)).await;
                }
                timeout(life, pending::<()>()).await.ok();
                Err(Status::unavailable("the connection was closed"))
            })
        }));
        let mut filling = pin!(progress.fill(Exchange::new(&mut stream, &channel)));
        let mut is_waiting = async || poll_fn(|cx| Poll::Ready(filling.as_mut().poll(cx).is_pending())).await;
        assert!(is_waiting().await);
        advance(life).await;
        is_waiting().await
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_ends_with_a_stream_that_lasts() {
        for is_accepted in [true, false] {
            let requested = Requested { table: "t".to_owned(), samples: 1, timeout: None };
            let mut progress = Progress::new(requested, VecDeque::new(), Some(PATIENCE));
            assert!(outlasts(&mut progress, PATIENCE / 30, true).await);
            // The wait before the next attempt.
            advance(PATIENCE / 30).await;
            assert_eq!(outlasts(&mut progress, 2 * PATIENCE, is_accepted).await, is_accepted);
        }
    }
}
