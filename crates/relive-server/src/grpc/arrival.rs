//! A request's body, whose bytes leave the account of unread bytes as they are read.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use http_body::Body as _;
use hyper::body::Incoming;

use crate::traffic::{Line, Window};

#[derive(Debug)]
pub(super) struct Arrival {
    body: Incoming,
    window: Arc<Window>,
}

impl Arrival {
    /// A request of the connection.
    pub(super) fn new(body: Incoming, line: &Line) -> Self {
        let window = Arc::clone(line.window());
        window.enter();
        Self { body, window }
    }

    /// The next piece of data.
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
        // Unread data is dropped with the request.
        let mut cx = Context::from_waker(Waker::noop());
        while let Poll::Ready(Some(Ok(_))) = self.poll_data(&mut cx) {}
        self.window.leave();
    }
}
