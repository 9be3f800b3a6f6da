//! What one stream has on its account.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use super::wait::{StreamAccount, Waiting};

/// Bytes that are on their account, until it is dropped.
#[derive(Debug)]
pub(crate) struct Load {
    account: Arc<StreamAccount>,
    bytes: u64,
    has_arrived: bool,
    waiting: Option<Waiting>,
}

impl Load {
    pub(super) fn new(account: Arc<StreamAccount>, bytes: u64) -> Self {
        Self { account, bytes, has_arrived: false, waiting: None }
    }

    /// So many bytes have come by now: ready once there is room for them. Nothing further is to be read before that.
    pub(crate) fn poll_grow(&mut self, bytes: u64, cx: &mut Context<'_>) -> Poll<()> {
        let more = bytes.saturating_sub(self.bytes);
        if more == 0 {
            return Poll::Ready(());
        }
        let account = &self.account;
        let attempt = || account.traffic.go_on(&account.meter, more);
        let taken = Waiting::poll(&mut self.waiting, account, Some(account.meter.id), cx, attempt);
        taken.map(|()| {
            self.bytes += more;
            account.meter.grow(more);
            account.meter.moved().fetch_add(more, Ordering::Relaxed);
        })
    }

    /// Where bytes are counted that the client takes of it.
    pub(crate) fn moved(&self) -> &Arc<AtomicU64> {
        self.account.meter.moved()
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
        let Self { account, bytes, .. } = self;
        if self.has_arrived {
            account.meter.arrived();
        } else {
            account.meter.given_up(account.traffic.contended_since_ms(), account.traffic.now_ms());
        }
        account.traffic.give_back(&account.meter, *bytes);
    }
}
