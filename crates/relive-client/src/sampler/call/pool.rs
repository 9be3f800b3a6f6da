//! Connections that no call uses at the moment.

use parking_lot::Mutex;

use super::stream::OwnStream;

/// Idle connections that are kept: as many threads may call one after the other without connecting anew.
const MAX_IDLE: usize = 8;

/// The idle connections of a client.
#[derive(Default)]
pub(crate) struct StreamPool {
    idle: Mutex<Vec<OwnStream>>,
}

impl StreamPool {
    /// The one that was used last, which is the likeliest to be alive.
    pub(super) fn take(&self) -> Option<OwnStream> {
        self.idle.lock().pop()
    }

    pub(super) fn put(&self, stream: OwnStream) {
        let mut idle = self.idle.lock();
        if idle.len() < MAX_IDLE {
            idle.push(stream);
            return;
        }
        // Ending a connection takes a while.
        drop(idle);
        drop(stream);
    }
}
