//! At which server a writer's stream is.
//!
//! A stream stays where it is: what it brings is confirmed there. A new one goes to the server with the fewest of this client.
//! When a server joins, streams move there one by one as long as theirs has more than one more: they end in order at the
//! old one first, so that moving loses and repeats nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::fleet::Many;
use super::server::Server;
use crate::client::Client;

/// A stream's place, counted as long as this lives.
pub(crate) struct Place {
    many: Arc<Many>,
    server: Arc<Server>,
    /// The servers that had joined when this place was looked at last.
    joined: AtomicU64,
}

impl Many {
    /// A place for a new stream, if a server takes part, and it is known which.
    pub(crate) fn place(self: &Arc<Self>) -> Option<Place> {
        if !self.is_settled() {
            return None;
        }
        let _one_at_a_time = self.placing.lock();
        let mut up = self.up();
        if up.is_empty() {
            return None;
        }
        let first = self.rotation.fetch_add(1, Ordering::Relaxed) % up.len();
        up.rotate_left(first);
        let server = up.into_iter().min_by_key(|server| server.writers.load(Ordering::Relaxed))?;
        server.writers.fetch_add(1, Ordering::Relaxed);
        let joined = AtomicU64::new(self.joined.load(Ordering::Relaxed));
        Some(Place { many: Arc::clone(self), server, joined })
    }

    /// Waits until a server may take part.
    pub(crate) async fn wait_for_place(&self) {
        let mut version = self.watch();
        loop {
            version.borrow_and_update();
            if self.is_settled() && !self.up().is_empty() {
                return;
            }
            if version.changed().await.is_err() {
                return;
            }
        }
    }

    /// Why there is no place.
    pub(crate) fn why_no_place(&self) -> String {
        self.why_nobody()
    }
}

impl Place {
    pub(crate) fn client(&self) -> &Client {
        self.server.client()
    }

    pub(crate) fn address(&self) -> &str {
        self.server.address()
    }

    /// Tells servers' streams apart.
    pub(crate) fn number(&self) -> u32 {
        self.server.number
    }

    /// Ready once the server is left out.
    pub(crate) async fn left_out(&self) {
        self.server.left_out().await;
    }

    /// Takes note that the stream broke.
    pub(crate) fn broke(&self, reason: &str) {
        self.many.failed(&self.server, reason);
    }

    /// Takes note that the server has these items.
    pub(crate) fn has_items(&self, keys: &[u64]) {
        for key in keys {
            self.many.owners.note(*key, self.server.number);
        }
    }

    /// Whether the stream does better to move. Costs a glance unless a server has joined.
    pub(crate) fn should_move(&self) -> bool {
        let joined = self.many.joined.load(Ordering::Relaxed);
        if self.joined.load(Ordering::Relaxed) == joined {
            return false;
        }
        let _one_at_a_time = self.many.placing.lock();
        let fewest = self.many.up().iter().map(|server| server.writers.load(Ordering::Relaxed)).min();
        let mine = self.server.writers.load(Ordering::Relaxed);
        let moves = fewest.is_some_and(|fewest| mine > fewest + 1);
        if !moves {
            self.joined.store(joined, Ordering::Relaxed);
        }
        moves
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.server.writers.fetch_sub(1, Ordering::Relaxed);
    }
}
