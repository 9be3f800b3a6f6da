//! The sample stream of a connection.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use relive_connection::GrpcChannel;
use relive_wire::reverb::SampleStreamRequest;
use relive_wire::sample::{Assembler, ReceivedSample};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;
use tonic::Status;

use crate::samples::Sample;
use crate::stream::StreamEnd;
use crate::stream::{Responses, SAMPLE_STREAM};

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

type Opening = Pin<Box<dyn Future<Output = Result<Responses, Status>> + Send>>;

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
    pub(super) async fn receive(&mut self, into: &mut VecDeque<Sample>) -> Result<(), StreamEnd> {
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
    pub(super) fn life(&self) -> Duration {
        self.established.get().map_or(Duration::ZERO, Instant::elapsed)
    }

    /// Returns whether the stream has outstanding samples.
    pub(super) fn has_outstanding(&self) -> bool {
        self.outstanding > 0 || self.assembler.is_mid_sample()
    }

    async fn receive(&mut self, into: &mut VecDeque<Sample>) -> Result<(), StreamEnd> {
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
