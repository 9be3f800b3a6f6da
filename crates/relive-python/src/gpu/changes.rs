//! Distributes changes to weights to all loaders of a store.

use std::sync::{Arc, Weak};

use relive_gpu::{Change, Reader, Store};

use super::network::ServedStore;
use crate::interpreter::lock::Brief;

/// The changes that a loader has not processed.
#[derive(Default)]
pub(super) struct PendingChanges {
    pub(super) changes: Vec<Change>,
    /// There were more changes than rows, so reading all rows takes less time.
    pub(super) is_overfull: bool,
}

/// A store, and the loaders that follow its weights. The store reports each change once.
pub(super) struct Hub {
    store: Store,
    /// Also reads the other ranks' stores once they are joined.
    reader: Brief<Reader>,
    /// Set if ranks on other machines can read the store.
    serving: Brief<Option<Arc<ServedStore>>>,
    followers: Brief<Vec<Weak<Brief<PendingChanges>>>>,
}

/// A loader's queue of changes.
pub(super) struct Follower {
    hub: Weak<Hub>,
    pending: Arc<Brief<PendingChanges>>,
}

impl Hub {
    pub(super) fn new(store: Store) -> Arc<Hub> {
        let reader = Brief::new(store.reader().clone());
        Arc::new(Hub { store, reader, serving: Brief::default(), followers: Brief::default() })
    }

    /// Returns the reader of the batches' data.
    pub(super) fn reader(&self) -> Reader {
        self.reader.get()
    }

    /// Serves the store to other machines from now on.
    pub(super) fn serve(&self, serving: ServedStore) {
        self.serving.replace(Some(Arc::new(serving)));
    }

    /// Makes this store also read the stores of other ranks from now on: the stores of `others` in this machine's
    /// memory, and the stores at `addresses` on other machines.
    ///
    /// # Errors
    /// A store is unreachable, or ranks are missing.
    pub(super) fn join(&self, mut others: Vec<Reader>, addresses: &[String]) -> relive_gpu::Result<()> {
        let own = self.store.reader();
        others.push(own.clone());
        // The lock is not held while this waits for other machines.
        let peers = match self.serving.get() {
            Some(serving) => serving.connect(addresses)?,
            None => Vec::new(),
        };
        self.reader.replace(own.of_ranks(&others, &peers)?);
        Ok(())
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// Subscribes to changes from now on.
    pub(super) fn follow(self: &Arc<Hub>) -> Follower {
        let pending = Arc::new(Brief::new(PendingChanges::default()));
        self.followers.with(|followers| followers.push(Arc::downgrade(&pending)));
        Follower { hub: Arc::downgrade(self), pending }
    }

    fn distribute(&self) {
        self.followers.with(|followers| {
            let changes = self.store.take_changes();
            followers.retain(|follower| {
                let Some(pending) = follower.upgrade() else { return false };
                pending.with(|pending| pending.add(&changes, self.store.capacity()));
                true
            });
        });
    }
}

impl PendingChanges {
    fn add(&mut self, changes: &[Change], capacity: u64) {
        if (self.changes.len() + changes.len()) as u64 > capacity {
            self.is_overfull = true;
            self.changes = Vec::new();
        }
        if !self.is_overfull {
            self.changes.extend_from_slice(changes);
        }
    }
}

impl Follower {
    /// Returns the changes since the last call, or `None` if the store has been closed.
    pub(super) fn take(&self) -> Option<PendingChanges> {
        self.hub.upgrade()?.distribute();
        Some(self.pending.take())
    }
}
