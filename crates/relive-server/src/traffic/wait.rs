//! Waits for room.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::time::{Instant, Sleep};

use super::account::{Traffic, Turn};
use super::meter::Meter;
use crate::limits::ROOM_RECHECK;

/// The account of one stream, which has one load at a time.
#[derive(Debug)]
pub(super) struct StreamAccount {
    pub(super) traffic: Arc<Traffic>,
    pub(super) meter: Arc<Meter>,
}

impl Drop for StreamAccount {
    fn drop(&mut self) {
        self.traffic.deregister(self.meter.id);
    }
}

/// A place in the queue, until it is dropped.
#[derive(Debug)]
pub(super) struct QueuePlace {
    traffic: Arc<Traffic>,
    turn: Turn,
    recheck: Pin<Box<Sleep>>,
}

impl QueuePlace {
    /// Becomes ready once `attempt` succeeds. Repeats the attempt whenever there may be room. `growing_stream` is the
    /// number of the stream if its load has begun.
    pub(super) fn poll(
        waiting: &mut Option<Self>,
        account: &StreamAccount,
        growing_stream: Option<u64>,
        cx: &mut Context<'_>,
        attempt: impl Fn() -> bool,
    ) -> Poll<()> {
        loop {
            if attempt() {
                *waiting = None;
                return Poll::Ready(());
            }
            let place = waiting.get_or_insert_with(|| Self::new(&account.traffic, growing_stream));
            place.traffic.wait(place.turn, cx.waker());
            // Room that was released before the waker was registered has not woken this stream.
            if attempt() {
                *waiting = None;
                return Poll::Ready(());
            }
            if place.recheck.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            place.traffic.cut_stalled();
            place.recheck.as_mut().reset(Instant::now() + ROOM_RECHECK);
        }
    }

    fn new(traffic: &Arc<Traffic>, growing_stream: Option<u64>) -> Self {
        let turn = traffic.begin_wait(growing_stream);
        traffic.log_waiting();
        Self { traffic: Arc::clone(traffic), turn, recheck: Box::pin(tokio::time::sleep(ROOM_RECHECK)) }
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        self.traffic.end_wait(self.turn);
    }
}
