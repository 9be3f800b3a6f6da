//! A request's body. Its bytes stop counting as unread when they are read.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use http_body::Body as _;
use hyper::body::Incoming;

use crate::traffic::{ConnectionBudget, Window};

#[derive(Debug)]
pub(super) struct Arrival {
    body: Incoming,
    window: Arc<Window>,
}

impl Arrival {
    /// Creates the body of a request on the connection.
    pub(super) fn new(body: Incoming, connection_budget: &ConnectionBudget) -> Self {
        let window = Arc::clone(connection_budget.window());
        window.enter();
        Self { body, window }
    }

    /// Returns the next piece of data.
    pub(super) fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<hyper::Result<Bytes>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        Poll::Ready(frame.map(|frame| {
            let data = frame?.into_data().unwrap_or_default();
            self.window.taken(data.len() as u64);
            Ok(data)
        }))
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        // Unread data is dropped with the request, so it must no longer be counted.
        let mut cx = Context::from_waker(Waker::noop());
        while let Poll::Ready(Some(Ok(_))) = self.poll_data(&mut cx) {}
        self.window.leave();
    }
}
