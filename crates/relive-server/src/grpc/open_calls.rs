//! The calls in progress on one connection.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::{Frame, SizeHint};
use tokio::sync::Notify;
use tokio::time::sleep;
use tonic::Status;
use tonic::body::Body;

/// Counts the calls whose responses are not complete.
#[derive(Debug, Default)]
pub(crate) struct OpenCalls {
    count: AtomicUsize,
    ended: Notify,
}

impl OpenCalls {
    pub(super) fn begin(self: &Arc<Self>) -> OpenCall {
        self.count.fetch_add(1, Ordering::Relaxed);
        OpenCall(Arc::clone(self))
    }

    /// Waits until no call is open, and then for `time` if no other call begins.
    pub(crate) async fn none_for(&self, time: Duration) {
        loop {
            let ended = self.ended.notified();
            if self.count.load(Ordering::Acquire) > 0 {
                ended.await;
                continue;
            }
            sleep(time).await;
            if self.count.load(Ordering::Acquire) == 0 {
                return;
            }
        }
    }
}

/// A call in progress.
pub(super) struct OpenCall(Arc<OpenCalls>);

impl OpenCall {
    /// Returns `response`. The call ends when its body has been sent or dropped.
    pub(super) fn until_sent(self, response: Response<Body>) -> Response<Body> {
        response.map(|body| Body::new(OpenBody { body, _call: self }))
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::Release) == 1 {
            self.0.ended.notify_waiters();
        }
    }
}

/// The body of an open call's response.
struct OpenBody {
    body: Body,
    _call: OpenCall,
}

impl http_body::Body for OpenBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
