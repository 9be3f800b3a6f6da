//! Distributes changes of weights to all loaders of a store.

use std::sync::{Arc, Weak};

use relive_gpu::{Change, Reader, Store};

use super::network::Serving;
use crate::interpreter::lock::Brief;

/// The changes that a loader has not processed.
#[derive(Default)]
pub(super) struct News {
    pub(super) changes: Vec<Change>,
    /// There were more changes than rows, so reading all rows costs less.
    pub(super) is_overfull: bool,
}

/// A store, and the loaders that follow its weights. The store reports each change once.
pub(super) struct Hub {
    store: Store,
    /// Also reads the other ranks' stores once they are joined.
    reader: Brief<Reader>,
    /// Set if ranks on other machines read the store.
    serving: Brief<Option<Serving>>,
    followers: Brief<Vec<Weak<Brief<News>>>>,
}

/// A loader's queue of changes.
pub(super) struct Follower {
    hub: Weak<Hub>,
    news: Arc<Brief<News>>,
}

impl Hub {
    pub(super) fn new(store: Store) -> Arc<Hub> {
        let reader = Brief::new(store.reader().clone());
        Arc::new(Hub { store, reader, serving: Brief::default(), followers: Brief::default() })
    }

    /// The reader of the batches' data.
    pub(super) fn reader(&self) -> Reader {
        self.reader.get()
    }

    /// Serves the store to other machines from now on.
    pub(super) fn serve(&self, serving: Serving) {
        self.serving.replace(Some(serving));
    }

    /// From now on, also reads these stores of other ranks: those in this machine's memory, and those at addresses on
    /// other machines.
    ///
    /// # Errors
    /// A store is unreachable, or ranks are missing.
    pub(super) fn join(&self, mut others: Vec<Reader>, addresses: &[String]) -> relive_gpu::Result<()> {
        let own = self.store.reader();
        others.push(own.clone());
        let peers = self.serving.with(|serving| match serving {
            Some(serving) => serving.connect(addresses),
            None => Ok(Vec::new()),
        })?;
        self.reader.replace(own.of_ranks(&others, &peers)?);
        Ok(())
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// Subscribes to changes from now on.
    pub(super) fn follow(self: &Arc<Hub>) -> Follower {
        let news = Arc::new(Brief::new(News::default()));
        self.followers.with(|followers| followers.push(Arc::downgrade(&news)));
        Follower { hub: Arc::downgrade(self), news }
    }

    fn tell_all(&self) {
        self.followers.with(|followers| {
            let changes = self.store.take_changes();
            followers.retain(|follower| {
                let Some(news) = follower.upgrade() else { return false };
                news.with(|news| news.add(&changes, self.store.capacity()));
                true
            });
        });
    }
}

impl News {
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
    /// The changes since the last call; `None` if the store was closed.
    pub(super) fn take(&self) -> Option<News> {
        self.hub.upgrade()?.tell_all();
        Some(self.news.take())
    }
}
