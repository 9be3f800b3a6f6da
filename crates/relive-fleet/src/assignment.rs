//! The server to which a writer's stream is assigned.
//!
//! A stream stays with its server, which confirms its items. A new stream goes to the server with the fewest of this
//! client's streams. When a server joins, streams move there one by one, as long as their current server has at least
//! two streams more than the new one. A stream first ends normally on the old server, so that a move neither loses nor
//! repeats items.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use relive_connection::Connection;

use crate::fleet::Fleet;
use crate::member::Member;

/// A stream's server. The stream counts toward the server's streams while this value exists.
pub struct Assignment {
    fleet: Arc<Fleet>,
    member: Arc<Member>,
    /// The number of servers that had joined at the last check.
    joined: AtomicU64,
}

impl Fleet {
    /// Assigns a server to a new stream, if the set of servers is known and at least one server participates.
    pub fn assign(self: &Arc<Self>) -> Option<Assignment> {
        if !self.is_settled() {
            return None;
        }
        let _one_at_a_time = self.assigning.lock();
        let mut up = self.up();
        if up.is_empty() {
            return None;
        }
        let first = self.rotation.fetch_add(1, Ordering::Relaxed) % up.len();
        up.rotate_left(first);
        let member = up.into_iter().min_by_key(|server| server.writers.load(Ordering::Relaxed))?;
        member.writers.fetch_add(1, Ordering::Relaxed);
        let joined = AtomicU64::new(self.joined.load(Ordering::Relaxed));
        Some(Assignment { fleet: Arc::clone(self), member, joined })
    }

    /// Waits until at least one server participates.
    pub async fn wait_for_member(&self) {
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
}

impl Assignment {
    /// Returns the connection to the server.
    pub fn connection(&self) -> &Connection {
        self.member.connection()
    }

    /// Returns the server's address.
    pub fn address(&self) -> &str {
        self.member.address()
    }

    /// Returns the number that identifies the server.
    pub fn number(&self) -> u32 {
        self.member.number()
    }

    /// Completes when the server is left out.
    pub async fn until_away(&self) {
        self.member.until_away().await;
    }

    /// Records that the stream broke.
    pub fn broke(&self, reason: &str) {
        self.fleet.failed(&self.member, reason);
    }

    /// Records that the server has the items with the given keys.
    pub fn has_items(&self, keys: &[u64]) {
        for key in keys {
            self.fleet.owners.note(*key, self.member.number());
        }
    }

    /// Returns whether the stream should move. This costs two atomic loads unless a server has joined.
    pub fn should_move(&self) -> bool {
        let joined = self.fleet.joined.load(Ordering::Relaxed);
        if self.joined.load(Ordering::Relaxed) == joined {
            return false;
        }
        let _one_at_a_time = self.fleet.assigning.lock();
        let fewest = self.fleet.up().iter().map(|server| server.writers.load(Ordering::Relaxed)).min();
        let mine = self.member.writers.load(Ordering::Relaxed);
        let moves = fewest.is_some_and(|fewest| mine > fewest + 1);
        if !moves {
            self.joined.store(joined, Ordering::Relaxed);
        }
        moves
    }
}

impl Drop for Assignment {
    fn drop(&mut self) {
        self.member.writers.fetch_sub(1, Ordering::Relaxed);
    }
}
