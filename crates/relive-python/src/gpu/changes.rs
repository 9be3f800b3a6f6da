//! Changes of weights, told to all loaders of a store.

use std::sync::{Arc, Weak};

use relive_gpu::{Change, Reader, Store};

use super::network::Serving;
use crate::lock::Brief;

/// What a loader has not yet looked at.
#[derive(Default)]
pub(super) struct News {
    pub(super) changes: Vec<Change>,
    /// There were more changes than rows: the rows themselves are fewer.
    pub(super) is_overfull: bool,
}

/// A store, and the loaders that follow its weights. The store gives each change out once.
pub(super) struct Hub {
    store: Store,
    /// Reads the other ranks' stores, too, once they are joined.
    reader: Brief<Reader>,
    /// There if ranks of other machines read it.
    serving: Brief<Option<Serving>>,
    followers: Brief<Vec<Weak<Brief<News>>>>,
}

/// A loader's part of the changes.
pub(super) struct Follower {
    hub: Weak<Hub>,
    news: Arc<Brief<News>>,
}

impl Hub {
    pub(super) fn new(store: Store) -> Arc<Hub> {
        let reader = Brief::new(store.reader().clone());
        Arc::new(Hub { store, reader, serving: Brief::default(), followers: Brief::default() })
    }

    /// The way to read what batches are made of.
    pub(super) fn reader(&self) -> Reader {
        self.reader.get()
    }

    /// Serves the store to other machines from now on.
    pub(super) fn serve(&self, serving: Serving) {
        self.serving.replace(Some(serving));
    }

    /// Reads these stores of other ranks from now on, too: those in this machine's memory, and those at addresses of
    /// others.
    ///
    /// # Errors
    /// One cannot be reached, they are not all ranks.
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

    /// Changes from now on.
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
    /// What has changed since the last call; none if the store was closed.
    pub(super) fn take(&self) -> Option<News> {
        self.hub.upgrade()?.tell_all();
        Some(self.news.take())
    }
}
