//! Counts the references from a table's items to the chunks of each episode.

use core::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use relive_tensor::Trajectory;

/// Episodes with at least one reference.
#[derive(Debug, Default)]
pub(crate) struct Episodes {
    own: References,
    /// The episodes of all shards. Each shard registers its first reference to an episode here, and the removal of its
    /// last one.
    shared: Option<Arc<SharedEpisodes>>,
}

/// The number of references to each episode. An item counts once for each of its distinct chunks.
#[derive(Debug, Default)]
pub(crate) struct References(HashMap<u64, u64, FixedState>);

/// For each episode, the number of shards that contain it. The map is divided into stripes. Writers usually have their
/// own episodes, so they rarely use the same stripe.
#[derive(Debug, Default)]
pub(crate) struct SharedEpisodes {
    stripes: [Stripe; STRIPES],
    hasher: FixedState,
}

/// A stripe, which has its own cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe(Mutex<References>);

const STRIPES: usize = 32;

impl Episodes {
    pub(crate) fn of_shard(shared: Arc<SharedEpisodes>) -> Self {
        Self { own: References::default(), shared: Some(shared) }
    }

    /// Returns the number of episodes; for a shard, the number in all shards.
    pub(crate) fn len(&self) -> usize {
        self.shared.as_ref().map_or(self.own.0.len(), |shared| shared.len())
    }

    pub(crate) fn add(&mut self, trajectory: &Trajectory) {
        for episode in episodes_of(trajectory) {
            let is_first = self.own.add(episode);
            if let Some(shared) = self.shared.as_ref().filter(|_| is_first) {
                shared.stripe(episode).add(episode);
            }
        }
    }

    /// Removes an item's references. Returns the number of episodes that lost their last reference.
    pub(crate) fn remove(&mut self, trajectory: &Trajectory) -> u64 {
        let Self { own, shared } = self;
        let remove = |episode| {
            let is_last = own.remove(episode);
            is_last && shared.as_ref().is_none_or(|shared| shared.stripe(episode).remove(episode))
        };
        episodes_of(trajectory).map(remove).map(u64::from).sum()
    }
}

fn episodes_of(trajectory: &Trajectory) -> impl Iterator<Item = u64> {
    trajectory.chunks().iter().map(|chunk| chunk.range().episode_id)
}

impl References {
    /// Adds a reference. Returns whether this is the first reference.
    fn add(&mut self, episode: u64) -> bool {
        let count = self.0.entry(episode).or_insert(0);
        *count += 1;
        *count == 1
    }

    /// Removes a reference. Returns whether this was the last reference.
    fn remove(&mut self, episode: u64) -> bool {
        let Entry::Occupied(mut count) = self.0.entry(episode) else { return false };
        *count.get_mut() -= 1;
        let was_last = *count.get() == 0;
        if was_last {
            count.remove();
        }
        was_last
    }
}

impl SharedEpisodes {
    pub(crate) fn len(&self) -> usize {
        self.stripes.iter().map(|stripe| stripe.lock().0.len()).sum()
    }

    fn stripe(&self, episode: u64) -> MutexGuard<'_, References> {
        let [first, ..] = &self.stripes;
        // The map in the stripe uses the remaining bits of the hash.
        let place = (self.hasher.hash_one(episode) >> 32) % STRIPES as u64;
        usize::try_from(place).ok().and_then(|place| self.stripes.get(place)).unwrap_or(first).lock()
    }
}

impl Stripe {
    fn lock(&self) -> MutexGuard<'_, References> {
        // No code that runs under the lock can leave the counts inconsistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
