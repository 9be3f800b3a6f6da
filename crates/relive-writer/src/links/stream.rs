//! The task that keeps an insert stream open.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use relive_connection::{Backoff, Dialer, Error, Stub, is_transient_status, status_error};
use relive_fleet::{Assignment, Backend};
use relive_tensor::Codec;
use relive_wire::reverb::InsertStreamRequest;
use relive_wire::v1::InsertItems;
use tokio::time::{Instant, Sleep, sleep, timeout};
use tonic::Status;

use super::bulk::ItemConnection;
use super::destination::{Destination, SilentConnections, StreamTarget};
use super::goal::{MAX_HOLD, Unconfirmed};
use super::remote::RemoteLink;
use crate::items::Request;

/// Why a stream ended too early.
enum Broken {
    Status(Status),
    Permanent(Error),
}

impl From<Status> for Broken {
    fn from(status: Status) -> Broken {
        Broken::Status(status)
    }
}

/// Where writers tell of items that are not confirmed: apart from the rest, for programs whose writers end in the
/// middle of episodes.
pub(crate) const LOG: &str = "relive::writer";

/// How long small items are gathered after a request. The timers of Tokio count in milliseconds.
const LINGER: Duration = Duration::from_millis(1);

/// How often it is checked whether items wait.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// How long items wait before the log is told why; then after twice as long each time.
const FIRST_NOTICE: Duration = Duration::from_secs(3);

/// Opens streams until the writer is done or the server refuses for good, and tells in the log what items wait for.
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

/// Logs what items wait for, as long as none is confirmed.
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
                "a writer for {address} has {items} items ({tables}) that were not confirmed for {waited} s: {why}"
            );
        }
    }
}

/// Opens streams until the writer is done or the server refuses for good.
async fn keep_open(link: Arc<RemoteLink>, mut destination: Destination, codec: Option<Codec>) {
    let mut backoff = Backoff::default();
    let mut stream = link.next_stream();
    while link.wait_for_work().await {
        let started = Instant::now();
        let target = destination.next(&link).await;
        let ended = tokio::select! {
            biased;
            ended = to_target(&link, stream, &target, destination.silent_connections(&target), codec) => ended,
            () = target.left_out() => Err(Broken::Status(Status::unavailable("the server is left out"))),
        };
        let old = link.leave_stream();
        stream = link.next_stream();
        if let Some(old) = old {
            // The transport keeps a stream as long as its outgoing half is open.
            old.wake();
        }
        let is_broken = ended.is_err();
        if is_broken {
            target.connection.forget_dialer();
        }
        match ended {
            Err(Broken::Permanent(error)) => return drop(link.fail(error)),
            Err(Broken::Status(status)) if !is_transient_status(&status) => {
                return drop(link.fail(status_error(&target.operation(), status)));
            }
            Err(Broken::Status(status)) => {
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

/// One stream, by the way that there is.
async fn to_target(
    link: &Arc<RemoteLink>,
    stream: u64,
    target: &StreamTarget,
    silent: &mut SilentConnections,
    codec: Option<Codec>,
) -> Result<(), Broken> {
    let dialer = silent.dialer(&target.connection).await.map_err(Broken::Permanent)?;
    target.connection.check_codec(codec).await?;
    match dialer {
        Some(dialer) => bulk_stream(link, stream, target, &dialer, silent).await?,
        None => one_stream(link, stream, target, target.stub.clone()).await?,
    }
    Ok(())
}

/// Tells the server again what items look like: it may have begun anew.
async fn propose_again(backend: &Backend) {
    let all = async {
        for proposal in backend.proposals().all() {
            backend.propose(&proposal).await;
        }
    };
    // What is not told in time is told before the next stream, if this one fails, too.
    let _ = timeout(MAX_HOLD, all).await;
}

/// One stream from its opening to its end.
async fn one_stream(
    link: &Arc<RemoteLink>,
    stream: u64,
    target: &StreamTarget,
    mut stub: Stub,
) -> Result<(), Status> {
    let requests = Requests::<InsertStreamRequest>::new(Arc::clone(link), stream, target.assignment.clone());
    let mut confirmations = stub.insert_stream(requests).await?.into_inner();
    while let Some(response) = confirmations.message().await? {
        confirm(link, target, &response.keys);
    }
    Ok(())
}

/// The same over the bulk path. A server that has never spoken it is not asked again.
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
    silent.note(connection.has_spoken() || ended.is_ok());
    ended
}

/// Takes in confirmations.
fn confirm(link: &RemoteLink, target: &StreamTarget, keys: &[u64]) {
    link.confirm(keys);
    if let Some(assignment) = &target.assignment {
        assignment.has_items(keys);
    }
}

/// The outgoing half: requests are cut when the connection has room for them.
///
/// When it runs empty it lingers: for [`LINGER`] it gathers small items instead of being woken for each. Whoever waits
/// for a confirmation wakes it at once.
struct Requests<R> {
    link: Arc<RemoteLink>,
    stream: u64,
    /// Runs from when the stream ran empty after a request.
    linger: Pin<Box<Sleep>>,
    state: Activity,
    /// Of many servers, which.
    assignment: Option<Arc<Assignment>>,
    kind: PhantomData<fn() -> R>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Activity {
    /// Just sent a request.
    Sending,
    /// Ran empty, and the timer runs.
    Lingering,
    /// Nothing to do for longer than [`LINGER`]: the next item is sent at once.
    Idle,
}

impl<R: Request> Requests<R> {
    fn new(link: Arc<RemoteLink>, stream: u64, assignment: Option<Arc<Assignment>>) -> Requests<R> {
        let linger = Box::pin(sleep(LINGER));
        Requests { link, stream, linger, state: Activity::Idle, assignment, kind: PhantomData }
    }

    /// Whether the timer will wake this stream again.
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
