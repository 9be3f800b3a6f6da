//! Connections and their streams, as they see the account.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::account::Traffic;
use super::load::Load;
use super::meter::{Meter, Part};
use super::wait::Waiting;
use super::windows::Window;

/// One connection, as its streams see it; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    traffic: Arc<Traffic>,
    part: Arc<Part>,
    window: Arc<Window>,
}

impl Line {
    pub(super) fn new(traffic: Arc<Traffic>, part: Arc<Part>, window: Arc<Window>) -> Self {
        Self { traffic, part, window }
    }

    /// What the connection has not read.
    pub(crate) fn window(&self) -> &Arc<Window> {
        &self.window
    }

    /// Ready when the connection must end because others wait for what it holds.
    pub(crate) async fn cut(&self) {
        self.part.is_cut().await;
    }

    /// The way for one stream.
    pub(crate) fn passage(&self) -> Passage {
        let traffic = Arc::clone(&self.traffic);
        let meter = traffic.register(&self.part);
        Passage { way: Arc::new(Way { traffic, meter }), waiting: None }
    }
}

/// The way of one stream, which has one load at a time.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) traffic: Arc<Traffic>,
    pub(super) meter: Arc<Meter>,
}

impl Drop for Way {
    fn drop(&mut self) {
        self.traffic.deregister(self.meter.id);
    }
}

/// Where one stream waits for room.
#[derive(Debug)]
pub(crate) struct Passage {
    way: Arc<Way>,
    waiting: Option<Waiting>,
}

impl Passage {
    /// Room for `bytes`, as soon as there is any. The load before is to be dropped by then.
    pub(crate) fn poll_take(&mut self, bytes: u64, cx: &mut Context<'_>) -> Poll<Load> {
        let way = &self.way;
        let taken = Waiting::poll(&mut self.waiting, way, None, cx, || way.traffic.begin(&way.meter, bytes));
        taken.map(|()| {
            way.meter.begin(bytes, way.traffic.now_ms());
            Load::new(Arc::clone(way), bytes)
        })
    }

    /// As [`poll_take`](Self::poll_take). Dropping the future ends the wait.
    pub(crate) async fn take(&mut self, bytes: u64) -> Load {
        let attempt = Attempt(self);
        poll_fn(|cx| attempt.0.poll_take(bytes, cx)).await
    }
}

/// Ends a wait that is given up.
struct Attempt<'a>(&'a mut Passage);

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.0.waiting = None;
    }
}
