//! The task that keeps an insert stream open.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use relive_wire::reverb::InsertStreamRequest;
use tokio::time::{Instant, sleep};
use tonic::Status;

use super::link::Link;
use crate::Error;
use crate::backoff::Backoff;
use crate::client::Stub;
use crate::error::is_transient_status;

/// Opens streams until the writer is done or the server refuses for good.
pub(crate) async fn run(link: Arc<Link>, mut stub: Stub) {
    let mut backoff = Backoff::new();
    let mut stream = link.next_stream();
    while link.wait_for_work().await {
        let started = Instant::now();
        let ended = one_stream(&link, stream, &mut stub).await;
        stream = link.next_stream();
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
    }
}

/// One stream from its opening to its end.
async fn one_stream(link: &Arc<Link>, stream: u64, stub: &mut Stub) -> Result<(), Status> {
    let requests = Requests { link: Arc::clone(link), stream };
    let mut confirmations = stub.insert_stream(requests).await?.into_inner();
    while let Some(response) = confirmations.message().await? {
        link.confirm(&response.keys);
    }
    Ok(())
}

/// The outgoing half: requests are cut when the connection has room for them.
struct Requests {
    link: Arc<Link>,
    stream: u64,
}

impl Stream for Requests {
    type Item = InsertStreamRequest;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<InsertStreamRequest>> {
        self.link.poll_request(self.stream, cx)
    }
}
