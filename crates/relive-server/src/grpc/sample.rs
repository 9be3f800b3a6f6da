//! SampleStream: receives requests, and sends samples in messages that share the stored chunks' bytes.
//!
//! The response body is written directly instead of by a codec, so that a large chunk is sent from the table to the
//! socket without a copy.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use relive_engine::{SampleFuture, SampleRequest, TableHandle, Undelivered};
use relive_table::Sampled;
use relive_tensor::CodecSet;
use relive_wire::limits::{SAMPLE_BATCH_BASE, SAMPLE_BATCH_BYTES};
use relive_wire::reverb::SampleStreamRequest;
use relive_wire::sample::Packer;
use relive_wire::{Message, codec};
use tonic::Status;

use super::messages::Messages;
use super::packing::Packing;
use super::replies;
use crate::limits::MAX_SAMPLE_REQUESTS_AHEAD_BYTES;
use crate::services::{Services, Stop, StreamCount, StructureTracker, status};
use crate::traffic::{ConnectionBudget, Load, StreamBudget};

/// One sample stream.
pub(super) struct SampleSession {
    services: Services,
    peer: Arc<str>,
    requests: Messages<SampleStreamRequest>,
    /// Requests that arrived while an earlier one was being served, and the memory that they use.
    ahead: VecDeque<SampleStreamRequest>,
    ahead_bytes: usize,
    /// Whether the client may send more.
    is_open: bool,
    /// Whether the client has requested only those samples that were already taken for it.
    is_taken_back: bool,
    structure_tracker: StructureTracker,
    work: Work,
    /// The size of the previous batch. Each batch may be twice as large as the previous one.
    last_batch: usize,
    out: VecDeque<Bytes>,
    /// The samples in `out`.
    undelivered: Option<Undelivered>,
    budget: StreamBudget,
    /// The accounted bytes, which are those in `out` and those that the connection has already taken from `out`.
    load: Option<Load>,
    stop: Stop,
    _count: StreamCount,
}

enum Work {
    /// No request is being served.
    Idle,
    /// A request still needs samples.
    Unserved(Order),
    /// A batch is being taken.
    Taking(Order, SampleFuture),
    /// The next part of a batch is waiting for room among the bytes in flight.
    Taken(Order, Packing, Undelivered),
    /// The stream ends with this status once all data has been sent.
    Ending(Status),
    Over,
}

/// The unserved part of a request.
struct Order {
    table: TableHandle,
    remaining: usize,
    timeout: Option<Duration>,
    /// The codecs that the reader supports.
    codecs: CodecSet,
}

impl SampleSession {
    pub(super) fn new(
        services: &Services,
        peer: &Arc<str>,
        connection_budget: &ConnectionBudget,
        requests: Messages<SampleStreamRequest>,
    ) -> Self {
        Self {
            peer: Arc::clone(peer),
            requests,
            ahead: VecDeque::new(),
            ahead_bytes: 0,
            is_open: true,
            is_taken_back: false,
            structure_tracker: StructureTracker::default(),
            work: Work::Idle,
            last_batch: SAMPLE_BATCH_BASE,
            out: VecDeque::new(),
            undelivered: None,
            budget: connection_budget.stream_budget(),
            load: None,
            stop: services.stop(),
            _count: services.count_sample_stream(),
            services: services.clone(),
        }
    }

    /// Reads the client's requests, even while other work is being done. Otherwise, they would stay in the stream's
    /// window.
    fn listen(&mut self, cx: &mut Context<'_>) {
        while self.is_open {
            match self.requests.poll_next(cx) {
                Poll::Pending => return,
                Poll::Ready(None) => self.is_open = false,
                Poll::Ready(Some(Ok(request))) => self.ahead(request),
                Poll::Ready(Some(Err(status))) => self.end(status),
            }
        }
    }

    fn ahead(&mut self, request: SampleStreamRequest) {
        if request.relive_take_back {
            (self.is_open, self.is_taken_back, self.ahead, self.ahead_bytes) =
                (false, true, VecDeque::new(), 0);
            return;
        }
        self.ahead_bytes += taken_bytes(&request);
        self.ahead.push_back(request);
        if self.ahead_bytes > MAX_SAMPLE_REQUESTS_AHEAD_BYTES {
            self.end(Status::resource_exhausted(format!(
                "{} requests with {} bytes are queued on this stream; the limit is \
                 {MAX_SAMPLE_REQUESTS_AHEAD_BYTES} bytes: request more samples at once, or send the next \
                 request after the previous samples have arrived",
                self.ahead.len(),
                self.ahead_bytes
            )));
        }
    }

    fn end(&mut self, status: Status) {
        (self.is_open, self.ahead, self.work) = (false, VecDeque::new(), Work::Ending(status));
    }

    /// Returns the next request, or `None` once the client has closed its side.
    fn poll_request(&mut self) -> Poll<Option<SampleStreamRequest>> {
        match self.ahead.pop_front() {
            None if self.is_open => Poll::Pending,
            request => {
                self.ahead_bytes -= request.as_ref().map_or(0, taken_bytes);
                Poll::Ready(request)
            }
        }
    }

    /// Works until there is something to send, or until it has to wait.
    fn advance(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.listen(cx);
        while self.out.is_empty() {
            if let Some(load) = self.load.take() {
                load.arrived();
            }
            self.work = match std::mem::replace(&mut self.work, Work::Over) {
                Work::Idle | Work::Unserved(_) if self.is_taken_back => Work::Ending(Status::ok("")),
                Work::Taking(order, future) if self.is_taken_back => match future.withdraw() {
                    taken if taken.is_empty() => Work::Ending(Status::ok("")),
                    taken => Work::taken(order, taken),
                },
                Work::Idle => match self.poll_request() {
                    Poll::Ready(next) => self.begin(next),
                    Poll::Pending => return self.wait(Work::Idle, cx),
                },
                Work::Unserved(order) => self.take_batch(order),
                Work::Taking(order, mut future) => match Pin::new(&mut future).poll(cx) {
                    Poll::Ready(Ok(batch)) => Work::taken(order, batch),
                    Poll::Ready(Err(error)) => Work::Ending(status::of_sample(&error)),
                    Poll::Pending => return self.wait(Work::Taking(order, future), cx),
                },
                Work::Taken(order, packing, undelivered) => {
                    match self.budget.poll_take(packing.part_bytes(), cx) {
                        Poll::Ready(load) => self.deliver(order, packing, undelivered, load),
                        Poll::Pending => return self.wait(Work::Taken(order, packing, undelivered), cx),
                    }
                }
                ending @ (Work::Ending(_) | Work::Over) => {
                    self.work = ending;
                    return Poll::Ready(());
                }
            };
        }
        Poll::Ready(())
    }

    /// Puts the unfinished work back, and ends the stream if it is idle and the server is stopping. A pending batch is
    /// ended by its table.
    fn wait(&mut self, work: Work, cx: &mut Context<'_>) -> Poll<()> {
        let is_idle = matches!(work, Work::Idle | Work::Taken(..));
        self.work = work;
        if is_idle && self.stop.poll(cx).is_ready() {
            self.work = Work::Ending(status::stopping());
            return Poll::Ready(());
        }
        Poll::Pending
    }

    fn begin(&self, next: Option<SampleStreamRequest>) -> Work {
        match next.map(|request| self.order(&request)) {
            Some(Ok(order)) => Work::Unserved(order),
            Some(Err(status)) => Work::Ending(status),
            None => Work::Ending(Status::ok("")),
        }
    }

    fn order(&self, request: &SampleStreamRequest) -> Result<Order, Status> {
        let remaining = i32::try_from(request.num_samples).ok().and_then(|count| usize::try_from(count).ok());
        let remaining = remaining.filter(|count| *count > 0).ok_or_else(|| {
            Status::invalid_argument(format!(
                "num_samples must be between 1 and {}, got {}",
                i32::MAX,
                request.num_samples
            ))
        })?;
        let table =
            self.services.engine().table(&request.table).map_err(|error| status::of_engine(&error))?;
        // On the wire, zero means an indefinite wait, and dm-reverb's clients rely on this.
        let timeout = request.rate_limiter_timeout.map(|timeout| timeout.milliseconds).unwrap_or_default();
        let timeout = u64::try_from(timeout).ok().filter(|millis| *millis > 0).map(Duration::from_millis);
        let codecs = codec::known_to_peer(&request.relive_codecs);
        Ok(Order { table, remaining, timeout, codecs })
    }

    fn take_batch(&self, order: Order) -> Work {
        let request = SampleRequest {
            limit: order.remaining.min(self.last_batch.saturating_mul(2)).min(MAX_BATCH),
            max_bytes: SAMPLE_BATCH_BYTES as u64,
            timeout: order.timeout,
            who: Arc::clone(&self.peer),
        };
        let future = order.table.sample(request);
        Work::Taking(order, future)
    }

    /// Packs the next part of a batch.
    fn deliver(
        &mut self,
        mut order: Order,
        mut packing: Packing,
        undelivered: Undelivered,
        load: Load,
    ) -> Work {
        let mut packer = Packer::for_readers_of(order.codecs);
        if let Some(structure) = self.structure_tracker.take_update(&order.table) {
            packer.put_structure(structure.as_deref());
        }
        if let Err(status) = packing.pack(&mut packer, order.table.name()) {
            return Work::Ending(status);
        }
        self.out.extend(packer.finish().into_iter().flat_map(|message| message.parts));
        self.load = Some(load);
        if !packing.is_over() {
            return Work::Taken(order, packing, undelivered);
        }
        self.undelivered = Some(undelivered);
        self.last_batch = packing.len();
        order.remaining -= packing.len();
        if order.remaining == 0 { Work::Idle } else { Work::Unserved(order) }
    }
}

impl Work {
    fn taken(order: Order, batch: Vec<Sampled>) -> Self {
        let undelivered = order.table.undelivered(batch.len());
        let packing = Packing::new(batch, order.codecs);
        Self::Taken(order, packing, undelivered)
    }
}

/// Returns the memory used by a request that is waiting for its turn.
fn taken_bytes(request: &SampleStreamRequest) -> usize {
    size_of::<SampleStreamRequest>() + request.encoded_len()
}

/// The number of samples in one batch. Except for the smallest items, the byte limit ends batches earlier.
const MAX_BATCH: usize = 1 << 16;

impl http_body::Body for SampleSession {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.advance(cx).is_pending() {
            return Poll::Pending;
        }
        if let Some(part) = self.out.pop_front() {
            if let Some(load) = &self.load {
                load.moved().fetch_add(part.len() as u64, Ordering::Relaxed);
            }
            if self.out.is_empty()
                && let Some(undelivered) = self.undelivered.take()
            {
                undelivered.delivered_all();
            }
            return Poll::Ready(Some(Ok(Frame::data(part))));
        }
        match std::mem::replace(&mut self.work, Work::Over) {
            Work::Ending(status) => Poll::Ready(Some(Ok(Frame::trailers(replies::trailers(&status))))),
            _ => Poll::Ready(None),
        }
    }
}
