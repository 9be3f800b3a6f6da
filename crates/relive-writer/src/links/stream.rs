//! The task that keeps an insert stream open.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use relive_connection::{
    Backoff, Dialer, Error, ReverbStub, SilentConnections, is_transient_status, status_error,
};
use relive_fleet::{Assignment, Backend};
use relive_tensor::Codec;
use relive_wire::reverb::InsertStreamRequest;
use relive_wire::v1::InsertItems;
use tokio::time::{Instant, Sleep, sleep, timeout};
use tonic::Status;

use super::bulk::ItemConnection;
use super::destination::{Destination, StreamTarget, bulk_path};
use super::goal::{MAX_HOLD, Unconfirmed};
use super::remote::RemoteLink;
use crate::items::Request;

/// The reason why a stream ended early.
enum StreamEnd {
    Status(Status),
    Permanent(Error),
}

impl From<Status> for StreamEnd {
    fn from(status: Status) -> StreamEnd {
        StreamEnd::Status(status)
    }
}

/// The log target for messages about unconfirmed items. It is separate so that programs whose writers end in the middle
/// of episodes can filter these messages.
pub(crate) const LOG: &str = "relive::writer";

/// How long small items are collected after a request. Tokio's timers have a resolution of one millisecond.
const LINGER: Duration = Duration::from_millis(1);

/// How often the task checks whether items are waiting.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// How long items wait before the reason is logged. The interval doubles after each message.
const FIRST_NOTICE: Duration = Duration::from_secs(3);

/// Opens streams until the writer is done or a permanent error occurs, and logs why items are waiting.
pub(crate) async fn run(
    link: Arc<RemoteLink>,
    destination: Destination,
    codec: Option<Codec>,
    address: Arc<str>,
) {
    tokio::select! {
        biased;
        () = keep_open(Arc::clone(&link), destination, codec) => {}
        () = log_waiting(&link, &address) => {}
    }
}

/// While no items are being confirmed, logs why they are waiting.
async fn log_waiting(link: &RemoteLink, address: &str) {
    let (mut seen, mut since, mut next) = (None, Instant::now(), FIRST_NOTICE);
    loop {
        sleep(CHECK_INTERVAL).await;
        let now = link.held_up_since();
        if now.is_none() || now != seen {
            (seen, since, next) = (now, Instant::now(), FIRST_NOTICE);
            continue;
        }
        if since.elapsed() < next {
            continue;
        }
        next *= 2;
        if let Some(Unconfirmed { items, tables, why, .. }) = link.unconfirmed() {
            let waited = since.elapsed().as_secs();
            tracing::warn!(
                target: LOG,
                "a writer for {address} has {items} items ({tables}) that have been unconfirmed for {waited} s: {why}"
            );
        }
    }
}

/// Opens streams until the writer is done or a permanent error occurs.
async fn keep_open(link: Arc<RemoteLink>, mut destination: Destination, codec: Option<Codec>) {
    let mut backoff = Backoff::default();
    let mut stream = link.next_stream();
    while link.wait_for_work().await {
        let started = Instant::now();
        let target = destination.next(&link).await;
        let ended = tokio::select! {
            biased;
            ended = to_target(&link, stream, &target, destination.silent_connections(&target), codec) => ended,
            () = target.until_away() => Err(StreamEnd::Status(Status::unavailable("the server is not used at the moment"))),
        };
        let old = link.leave_stream();
        stream = link.next_stream();
        if let Some(old) = old {
            // The transport keeps a stream as long as its sending half is open.
            old.wake();
        }
        let is_broken = ended.is_err();
        if is_broken {
            target.connection.forget_dialer();
        }
        match ended {
            Err(StreamEnd::Permanent(error)) => return drop(link.fail(error)),
            Err(StreamEnd::Status(status)) if !is_transient_status(&status) => {
                return drop(link.fail(status_error(&target.operation(), status)));
            }
            Err(StreamEnd::Status(status)) => {
                tracing::debug!(%status, "insert stream broke");
                link.stream_broke(&status);
                if let Some(assignment) = &target.assignment {
                    assignment.broke(status.message());
                }
            }
            Ok(()) => {}
        }
        let StreamTarget { connection, .. } = target;
        sleep(backoff.wait_after(started.elapsed())).await;
        if let Some(backend) = destination.backend().filter(|_| is_broken) {
            connection.watch_for_return(link.take_confirmed());
            propose_again(backend).await;
        }
    }
}

/// Runs one stream, over the bulk path or gRPC.
async fn to_target(
    link: &Arc<RemoteLink>,
    stream: u64,
    target: &StreamTarget,
    silent: &mut SilentConnections,
    codec: Option<Codec>,
) -> Result<(), StreamEnd> {
    let dialer = bulk_path(&target.connection, silent).await.map_err(StreamEnd::Permanent)?;
    target.connection.check_codec(codec).await?;
    match dialer {
        Some(dialer) => bulk_stream(link, stream, target, &dialer, silent).await?,
        None => one_stream(link, stream, target, target.stub.clone()).await?,
    }
    Ok(())
}

/// Proposes the structures of items again, because the server may have restarted.
async fn propose_again(backend: &Backend) {
    let all = async {
        for proposal in backend.proposals().all() {
            backend.propose(&proposal).await;
        }
    };
    // Proposals that are not sent in time are sent before the next stream, if this one also fails.
    let _ = timeout(MAX_HOLD, all).await;
}

/// Runs one stream from its opening to its end.
async fn one_stream(
    link: &Arc<RemoteLink>,
    stream: u64,
    target: &StreamTarget,
    mut stub: ReverbStub,
) -> Result<(), Status> {
    let requests = Requests::<InsertStreamRequest>::new(Arc::clone(link), stream, target.assignment.clone());
    let mut confirmations = stub.insert_stream(requests).await?.into_inner();
    while let Some(response) = confirmations.message().await? {
        confirm(link, target, &response.keys);
    }
    Ok(())
}

/// Runs one stream over the bulk path. If a server has never supported the bulk path, the path is not tried again.
async fn bulk_stream(
    link: &Arc<RemoteLink>,
    stream: u64,
    target: &StreamTarget,
    dialer: &Dialer,
    silent: &mut SilentConnections,
) -> Result<(), Status> {
    let mut connection = ItemConnection::open(dialer).await?;
    let requests = Requests::<InsertItems>::new(Arc::clone(link), stream, target.assignment.clone());
    let ended = connection.run(requests, |keys| confirm(link, target, keys)).await;
    silent.note(connection.has_answered() || ended.is_ok());
    if silent.are_too_many() {
        target.connection.warn_of_grpc_only(&SilentConnections::REASON);
    }
    ended
}

/// Records confirmations.
fn confirm(link: &RemoteLink, target: &StreamTarget, keys: &[u64]) {
    link.confirm(keys);
    if let Some(assignment) = &target.assignment {
        assignment.has_items(keys);
    }
}

/// The sending half: requests are created when the connection has room for them.
///
/// When the queue is empty, the sending half lingers: for [`LINGER`], it collects small items instead of being woken
/// for each of them. A caller that waits for a confirmation wakes it immediately.
struct Requests<R> {
    link: Arc<RemoteLink>,
    stream: u64,
    /// Starts when the queue is empty after a request.
    linger: Pin<Box<Sleep>>,
    state: Activity,
    /// The assignment to one of many servers.
    assignment: Option<Arc<Assignment>>,
    kind: PhantomData<fn() -> R>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Activity {
    /// The sending half has just sent a request.
    Sending,
    /// The queue is empty, and the timer is running.
    Lingering,
    /// There has been nothing to do for longer than [`LINGER`], so the next item is sent immediately.
    Idle,
}

impl<R: Request> Requests<R> {
    fn new(link: Arc<RemoteLink>, stream: u64, assignment: Option<Arc<Assignment>>) -> Requests<R> {
        let linger = Box::pin(sleep(LINGER));
        Requests { link, stream, linger, state: Activity::Idle, assignment, kind: PhantomData }
    }

    /// Returns whether the timer will wake this stream again.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> bool {
        if self.state == Activity::Sending {
            self.linger.as_mut().reset(Instant::now() + LINGER);
            self.state = Activity::Lingering;
        }
        if self.state == Activity::Lingering && self.linger.as_mut().poll(cx).is_ready() {
            self.state = Activity::Idle;
        }
        self.state == Activity::Lingering
    }
}

impl<R: Request> Stream for Requests<R> {
    type Item = R;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<R>> {
        let this = self.get_mut();
        if this.assignment.as_ref().is_some_and(|assignment| assignment.should_move()) {
            return Poll::Ready(None);
        }
        let lingers = this.poll_linger(cx);
        let request = this.link.poll_request(this.stream, lingers, cx);
        if matches!(request, Poll::Ready(Some(_))) {
            this.state = Activity::Sending;
        }
        request
    }
}
