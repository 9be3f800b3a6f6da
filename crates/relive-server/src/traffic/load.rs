//! The bytes of one stream on its account.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use super::wait::{StreamAccount, Waiting};

/// Bytes on the account, until this is dropped.
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

    /// Records that `bytes` have arrived by now: ready once there is room for them. The caller must not read on before
    /// that.
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

    /// The counter of the bytes that the client has taken.
    pub(crate) fn moved(&self) -> &Arc<AtomicU64> {
        self.account.meter.moved()
    }

    /// Records that all of it has arrived.
    pub(crate) fn arrived(mut self) {
        self.has_arrived = true;
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // From here on, it cannot be chosen to exceed the bound.
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
