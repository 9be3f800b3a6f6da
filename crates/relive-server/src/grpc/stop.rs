//! How a stream notices that the server is stopping.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::watch;

/// Ready once the server is stopping.
pub(crate) struct Stop(Pin<Box<dyn Future<Output = ()> + Send>>);

impl Stop {
    pub(super) fn new(mut stopping: watch::Receiver<bool>) -> Self {
        // A sender that is gone means that the server is gone.
        Self(Box::pin(async move { drop(stopping.wait_for(|stop| *stop).await) }))
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(cx)
    }
}

impl std::fmt::Debug for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stop")
    }
}
