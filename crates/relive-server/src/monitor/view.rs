//! The shared state of the request handlers.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::history::History;
use super::state::Monitor;
use crate::limits::MAX_EVENT_STREAMS;

#[derive(Debug, Clone)]
pub(super) struct View {
    pub(super) monitor: Monitor,
    pub(super) history: Arc<History>,
    pub(super) share: Arc<Share>,
}

/// The shared state of a server's streams.
#[derive(Debug)]
pub(super) struct Share {
    pub(super) slots: Arc<Semaphore>,
    /// The latest facts, and the time at which they were collected.
    pub(super) last: Mutex<Option<(Instant, Arc<str>)>>,
}

impl Default for Share {
    fn default() -> Self {
        Self { slots: Arc::new(Semaphore::new(MAX_EVENT_STREAMS)), last: Mutex::new(None) }
    }
}
