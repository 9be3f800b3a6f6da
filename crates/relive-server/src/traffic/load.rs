//! What one stream has on its way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use super::passage::Way;
use super::wait::Waiting;

/// Bytes that are on their way, until it is dropped.
#[derive(Debug)]
pub(crate) struct Load {
    way: Arc<Way>,
    bytes: u64,
    has_arrived: bool,
    waiting: Option<Waiting>,
}

impl Load {
    pub(super) fn new(way: Arc<Way>, bytes: u64) -> Self {
        Self { way, bytes, has_arrived: false, waiting: None }
    }

    /// So many bytes have come by now: ready once there is room for them. Nothing further is to be read before that.
    pub(crate) fn poll_grow(&mut self, bytes: u64, cx: &mut Context<'_>) -> Poll<()> {
        let more = bytes.saturating_sub(self.bytes);
        if more == 0 {
            return Poll::Ready(());
        }
        let way = &self.way;
        let attempt = || way.traffic.go_on(&way.meter, more);
        let taken = Waiting::poll(&mut self.waiting, way, Some(way.meter.id), cx, attempt);
        taken.map(|()| {
            self.bytes += more;
            way.meter.grow(more);
            way.meter.moved().fetch_add(more, Ordering::Relaxed);
        })
    }

    /// Where bytes are counted that the client takes of it.
    pub(crate) fn moved(&self) -> &Arc<AtomicU64> {
        self.way.meter.moved()
    }

    /// All of it has arrived.
    pub(crate) fn arrived(mut self) {
        self.has_arrived = true;
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // It cannot be chosen to go beyond the bound from here on.
        self.waiting = None;
        let Self { way, bytes, .. } = self;
        if self.has_arrived {
            way.meter.arrived();
        } else {
            way.meter.given_up(way.traffic.contended_since_ms(), way.traffic.now_ms());
        }
        way.traffic.give_back(&way.meter, *bytes);
    }
}
