//! The bytes that one stream has on the account.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use super::wait::{QueuePlace, StreamAccount};

/// Bytes that count on the account until this value is dropped.
#[derive(Debug)]
pub(crate) struct Load {
    account: Arc<StreamAccount>,
    bytes: u64,
    has_arrived: bool,
    waiting: Option<QueuePlace>,
}

impl Load {
    pub(super) fn new(account: Arc<StreamAccount>, bytes: u64) -> Self {
        Self { account, bytes, has_arrived: false, waiting: None }
    }

    /// Records that a total of `bytes` have arrived. Becomes ready once there is room for them; the caller must not
    /// read more before that.
    pub(crate) fn poll_grow(&mut self, bytes: u64, cx: &mut Context<'_>) -> Poll<()> {
        let more = bytes.saturating_sub(self.bytes);
        if more == 0 {
            return Poll::Ready(());
        }
        let account = &self.account;
        let attempt = || account.traffic.grow(&account.meter, more);
        let taken = QueuePlace::poll(&mut self.waiting, account, Some(account.meter.id), cx, attempt);
        taken.map(|()| {
            self.bytes += more;
            account.meter.grow(more);
            account.meter.moved().fetch_add(more, Ordering::Relaxed);
        })
    }

    /// Returns the counter of the bytes that the client has taken.
    pub(crate) fn moved(&self) -> &Arc<AtomicU64> {
        self.account.meter.moved()
    }

    /// Records that the load has arrived completely.
    pub(crate) fn arrived(mut self) {
        self.has_arrived = true;
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // From this point on, this load cannot be chosen to exceed the bound.
        self.waiting = None;
        let Self { account, bytes, .. } = self;
        if self.has_arrived {
            account.meter.arrived();
        } else {
            account.meter.abandoned(account.traffic.contended_since_ms(), account.traffic.now_ms());
        }
        account.traffic.give_back(&account.meter, *bytes);
    }
}
