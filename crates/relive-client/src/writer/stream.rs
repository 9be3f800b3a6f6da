//! The task that keeps an insert stream open.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use relive_tensor::Codec;
use relive_wire::reverb::InsertStreamRequest;
use tokio::time::{Instant, Sleep, sleep, timeout};
use tonic::Status;

use super::link::RemoteLink;
use super::names::MAX_HOLD;
use crate::backoff::Backoff;
use crate::bulk::{Dialer, ItemConnection, MOST_SILENT_CONNECTIONS};
use crate::client::{Client, Stub};
use crate::error::is_transient_status;
use crate::{Error, Result};

/// How long small items are gathered after a request. The timers of Tokio count in milliseconds.
const LINGER: Duration = Duration::from_millis(1);

/// Opens streams until the writer is done or the server refuses for good.
pub(crate) async fn run(link: Arc<RemoteLink>, mut stub: Stub, client: Client, codec: Option<Codec>) {
    let mut backoff = Backoff::new();
    let mut stream = link.next_stream();
    let mut way = Way::default();
    while link.wait_for_work().await {
        let started = Instant::now();
        let dialer = match way.dialer(&client).await {
            Ok(dialer) => dialer,
            Err(error) => return link.fail(error),
        };
        let ended = match (client.check_codec(codec).await, dialer) {
            (Err(status), _) => Err(status),
            (Ok(()), Some(dialer)) => bulk_stream(&link, stream, &dialer, &mut way).await,
            (Ok(()), None) => one_stream(&link, stream, &mut stub).await,
        };
        stream = link.next_stream();
        let is_broken = ended.is_err();
        if is_broken {
            client.forget_route();
        }
        match ended {
            Err(status) if !is_transient_status(&status) => {
                link.fail(Error::from_status("insert", status));
                return;
            }
            Err(status) => {
                tracing::debug!(%status, "insert stream broke");
                link.stream_broke(&status);
            }
            Ok(()) => {}
        }
        sleep(backoff.wait_after(started.elapsed())).await;
        if is_broken {
            propose_again(&client).await;
        }
    }
}

/// Tells the server again what items look like: it may have begun anew.
async fn propose_again(client: &Client) {
    let all = async {
        for proposal in client.proposals().all() {
            client.propose(&proposal).await;
        }
    };
    // What is not told in time is told before the next stream, if this one fails, too.
    let _ = timeout(MAX_HOLD, all).await;
}

/// One stream from its opening to its end.
async fn one_stream(link: &Arc<RemoteLink>, stream: u64, stub: &mut Stub) -> Result<(), Status> {
    let requests = Requests::new(Arc::clone(link), stream);
    let mut confirmations = stub.insert_stream(requests).await?.into_inner();
    while let Some(response) = confirmations.message().await? {
        link.confirm(&response.keys);
    }
    Ok(())
}

/// The same over the bulk path. A server that has never spoken it is not asked again.
async fn bulk_stream(
    link: &Arc<RemoteLink>,
    stream: u64,
    dialer: &Dialer,
    way: &mut Way,
) -> Result<(), Status> {
    let mut connection = ItemConnection::open(dialer).await?;
    let ended = connection.run(Requests::new(Arc::clone(link), stream), |keys| link.confirm(keys)).await;
    way.note(connection.has_spoken() || ended.is_ok());
    ended
}

/// Which way items go.
#[derive(Debug, Default)]
struct Way {
    /// Connections in a row that were taken and ended without an answer.
    silent: usize,
}

impl Way {
    /// The bulk path, if there is one. As long as it is not known, items go by gRPC, which knows how to wait for a server.
    async fn dialer(&self, client: &Client) -> Result<Option<Dialer>> {
        if self.silent >= MOST_SILENT_CONNECTIONS {
            return Ok(None);
        }
        match client.route().await {
            Err(error) if error.is_refusal() => Err(error),
            Err(_) => Ok(None),
            found => found,
        }
    }

    fn note(&mut self, has_answered: bool) {
        self.silent = if has_answered { 0 } else { self.silent + 1 };
    }
}

/// The outgoing half: requests are cut when the connection has room for them.
///
/// When it runs empty it lingers: for [`LINGER`] it gathers small items instead of being woken for each. Whoever waits
/// for a confirmation wakes it at once.
struct Requests {
    link: Arc<RemoteLink>,
    stream: u64,
    /// Runs from when the stream ran empty after a request.
    linger: Pin<Box<Sleep>>,
    state: Activity,
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

impl Requests {
    fn new(link: Arc<RemoteLink>, stream: u64) -> Requests {
        Requests { link, stream, linger: Box::pin(sleep(LINGER)), state: Activity::Idle }
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

impl Stream for Requests {
    type Item = InsertStreamRequest;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<InsertStreamRequest>> {
        let this = self.get_mut();
        let lingers = this.poll_linger(cx);
        let request = this.link.poll_request(this.stream, lingers, cx);
        if matches!(request, Poll::Ready(Some(_))) {
            this.state = Activity::Sending;
        }
        request
    }
}
