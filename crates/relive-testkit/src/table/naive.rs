//! A table optimized for readability.

use std::collections::{BTreeMap, BTreeSet};

use relive_table::{
    InsertError, InsertOutcome, NewItem, Paused, Sampled, Table, TableChange, TableConfig, Timestamp,
};

use crate::selector::NaiveSelector;

/// A table as a list of items. Where a selector chooses at random, the model follows the real table's choice if that
/// choice was possible.
#[derive(Clone, Debug)]
pub struct NaiveTable {
    config: TableConfig,
    /// The items, in insertion order.
    items: Vec<NaiveItem>,
    sampler: NaiveSelector,
    remover: NaiveSelector,
    inserts: i64,
    samples: i64,
    deletes: i64,
    /// The inserts, each weighted with the ratio that applied when it was made.
    weighted_inserts: f64,
    paused: Paused,
    is_limit_changed: bool,
    unique_samples: u64,
    deleted_episodes: u64,
}

#[derive(Clone, Debug)]
struct NaiveItem {
    key: u64,
    priority: f64,
    times_sampled: i32,
    inserted_at: Timestamp,
    /// Episodes and sizes by chunk key.
    chunks: BTreeMap<u64, (u64, u64)>,
}

impl NaiveTable {
    /// Creates an empty table.
    pub fn new(config: TableConfig) -> Self {
        let (sampler, remover) = (NaiveSelector::new(config.sampler), NaiveSelector::new(config.remover));
        let (items, inserts, samples, deletes) = (Vec::new(), 0, 0, 0);
        let (unique_samples, deleted_episodes) = (0, 0);
        let (weighted_inserts, paused) = (0.0, Paused::default());
        Self {
            config,
            items,
            sampler,
            remover,
            inserts,
            samples,
            deletes,
            weighted_inserts,
            paused,
            is_limit_changed: false,
            unique_samples,
            deleted_episodes,
        }
    }

    /// Returns whether the rate limiter allows the given number of inserts.
    pub fn can_insert(&self, count: i64) -> bool {
        let limits = self.config.rate_limiter;
        let cursor = self.weighted_inserts + float(count) * limits.samples_per_insert - float(self.samples);
        let fits = self.inserts + count - self.deletes <= limits.min_size_to_sample;
        !self.paused.inserts && (fits || cursor <= limits.max_diff)
    }

    /// Returns whether the rate limiter allows the given number of samples.
    pub fn can_sample(&self, count: i64) -> bool {
        let limits = self.config.rate_limiter;
        let cursor = self.weighted_inserts - float(self.samples);
        let is_large = self.inserts - self.deletes >= limits.min_size_to_sample;
        !self.paused.samples && is_large && cursor - float(count) >= limits.min_diff
    }

    /// Replays an insert with the given outcome.
    ///
    /// # Panics
    /// If the outcome is wrong.
    pub fn insert(&mut self, item: &NewItem, now: Timestamp, outcome: Result<InsertOutcome, InsertError>) {
        let known = self.items.iter().any(|other| other.key == item.key);
        let size: u64 = item.trajectory.chunks().iter().map(|chunk| chunk.size_bytes()).sum();
        if !known && self.config.max_bytes.is_some_and(|limit| size > limit) {
            assert!(matches!(outcome, Err(InsertError::TooLarge { .. })), "{size} bytes must be refused");
        } else if !self.accepts(known.then_some(item.key), item.priority) {
            let is_refused = matches!(outcome, Err(InsertError::Priority { .. }));
            assert!(is_refused, "priority {} must be refused", item.priority);
        } else if known {
            assert_eq!(outcome, Ok(InsertOutcome::Updated));
            self.set_priority(item.key, item.priority);
        } else {
            let Ok(InsertOutcome::Inserted { evicted }) = outcome else {
                panic!("item {} is new and valid, but the outcome was {outcome:?}", item.key)
            };
            self.add(item, now);
            self.evict(&evicted);
            self.inserts += 1;
            self.weighted_inserts += self.config.rate_limiter.samples_per_insert;
        }
    }

    fn accepts(&self, replaced: Option<u64>, priority: f64) -> bool {
        self.sampler.accepts(replaced, priority) && self.remover.accepts(replaced, priority)
    }

    fn add(&mut self, item: &NewItem, inserted_at: Timestamp) {
        let NewItem { key, priority, times_sampled, ref trajectory } = *item;
        let chunks =
            trajectory.chunks().iter().map(|c| (c.key(), (c.range().episode_id, c.size_bytes()))).collect();
        self.items.push(NaiveItem { key, priority, times_sampled, inserted_at, chunks });
        self.sampler.insert(key, priority);
        self.remover.insert(key, priority);
    }

    fn evict(&mut self, evicted: &[u64]) {
        for &key in evicted {
            assert!(self.is_over(), "an item leaves only while there is more than max_size or max_bytes");
            let possible = self.remover.probabilities();
            assert!(
                possible.iter().any(|(id, _)| *id == key),
                "evicted {key}, but only these are possible: {possible:?}"
            );
            self.remove(key);
        }
        assert!(!self.is_over(), "items leave until there is no more than max_size and max_bytes");
    }

    fn is_over(&self) -> bool {
        self.items.len() as u64 > self.config.max_size
            || self.config.max_bytes.is_some_and(|limit| self.bytes() > limit)
    }

    /// Returns the number of bytes in all chunks, each counted once.
    fn bytes(&self) -> u64 {
        self.chunks().values().map(|(_, size)| size).sum()
    }

    fn chunks(&self) -> BTreeMap<u64, (u64, u64)> {
        self.items.iter().flat_map(|item| item.chunks.clone()).collect()
    }

    fn set_priority(&mut self, key: u64, priority: f64) {
        self.sampler.update(key, priority);
        self.remover.update(key, priority);
        self.items.iter_mut().filter(|item| item.key == key).for_each(|item| item.priority = priority);
    }

    /// Replays a sample with the given result.
    ///
    /// # Panics
    /// If the result is impossible.
    pub fn sample(&mut self, sampled: Option<&Sampled>) {
        let possible = self.can_sample(1) && !self.items.is_empty();
        assert_eq!(sampled.is_some(), possible, "a sample succeeds if and only if the limiter allows it");
        let Some(sampled) = sampled else { return };
        self.samples += 1;
        self.sampler.check_pick(sampled.item.key, sampled.probability);
        assert_eq!(sampled.table_size, self.items.len() as u64);
        let mut items = self.items.iter_mut();
        let item = items.find(|item| item.key == sampled.item.key).expect("a pick is one of the items");
        self.unique_samples += u64::from(item.times_sampled == 0);
        item.times_sampled += 1;
        assert_eq!(sampled.times_sampled, item.times_sampled, "samples of {}", item.key);
        assert_eq!(sampled.priority.to_bits(), item.priority.to_bits(), "priority of {}", item.key);
        let limit = self.config.max_times_sampled;
        if limit >= 1 && (item.times_sampled == limit || self.is_limit_changed && item.times_sampled > limit)
        {
            self.remove(sampled.item.key);
        }
    }

    /// Replays a change to a priority; `None` means that it was refused.
    ///
    /// # Panics
    /// If the outcome is wrong.
    pub fn update(&mut self, key: u64, priority: f64, outcome: Option<bool>) {
        let known = self.items.iter().any(|item| item.key == key);
        let expected = (!known || self.accepts(Some(key), priority)).then_some(known);
        assert_eq!(outcome, expected, "update of {key} to {priority}");
        if expected == Some(true) {
            self.set_priority(key, priority);
        }
    }

    /// Replays updates in one call. The first refused update ends the call; the error is its key.
    ///
    /// # Panics
    /// If the outcome is wrong.
    pub fn update_many(&mut self, updates: &[(u64, f64)], outcome: Result<(), u64>) {
        let mut refused = None;
        for &(key, priority) in updates {
            let known = self.items.iter().any(|item| item.key == key);
            if known && !self.accepts(Some(key), priority) {
                refused = Some(key);
                break;
            }
            if known {
                self.set_priority(key, priority);
            }
        }
        assert_eq!(outcome.err(), refused, "updates {updates:?}");
    }

    /// Replays a deletion.
    ///
    /// # Panics
    /// If the outcome is wrong.
    pub fn delete(&mut self, key: u64, outcome: bool) {
        assert_eq!(outcome, self.items.iter().any(|item| item.key == key), "deletion of {key}");
        if outcome {
            self.remove(key);
        }
    }

    fn remove(&mut self, key: u64) {
        let before = self.episodes();
        self.items.retain(|item| item.key != key);
        self.deleted_episodes += (before.len() - self.episodes().len()) as u64;
        self.sampler.remove(key);
        self.remover.remove(key);
        self.deletes += 1;
    }

    fn episodes(&self) -> BTreeSet<u64> {
        self.chunks().values().map(|(episode, _)| *episode).collect()
    }

    /// Replays a change to the rules that was made or refused, and the evictions that it caused.
    ///
    /// # Panics
    /// If the outcome is wrong, or different items should have been evicted.
    pub fn change(&mut self, change: &TableChange, changed: bool, left: &[u64]) {
        let config = change.applied_to(&self.config);
        assert_eq!(changed, config.validate().is_ok(), "{change:?}");
        if changed {
            self.config = config;
            self.is_limit_changed |= change.max_times_sampled.is_some();
            self.paused = change.paused(self.paused);
            self.evict(left);
        }
    }

    /// Returns the keys of all items.
    pub fn keys(&self) -> Vec<u64> {
        self.items.iter().map(|item| item.key).collect()
    }

    /// Replays a reset.
    pub fn reset(&mut self) {
        let (paused, is_limit_changed) = (self.paused, self.is_limit_changed);
        *self = Self { paused, is_limit_changed, ..Self::new(self.config.clone()) };
    }

    /// Compares all observable state of a table.
    ///
    /// # Panics
    /// If the state differs.
    pub fn compare(&self, table: &Table) {
        let info = table.info();
        assert_eq!(info.current_size, self.items.len() as u64);
        assert_eq!((info.inserts, info.samples, info.deletes), (self.inserts, self.samples, self.deletes));
        assert_eq!(info.inserts - info.deletes, i64::try_from(self.items.len()).expect("models are small"));
        assert_eq!(info.num_episodes, self.episodes().len() as u64);
        assert_eq!(info.num_deleted_episodes, self.deleted_episodes);
        assert_eq!(info.num_unique_samples, self.unique_samples);
        let bytes = table.bytes();
        assert_eq!((bytes.chunks, bytes.encoded_bytes), (self.chunks().len() as u64, self.bytes()));
        self.compare_limits(table);
        self.compare_items(table);
    }

    fn compare_limits(&self, table: &Table) {
        for count in 1..4 {
            assert_eq!(table.can_insert(count), Ok(self.can_insert(count)), "{count} inserts");
            assert_eq!(table.can_sample(count), Ok(self.can_sample(count)), "{count} samples");
        }
        assert_eq!(table.insert_shortfall().is_none(), self.can_insert(1));
        assert_eq!(table.sample_shortfall().is_none(), self.can_sample(1));
    }

    fn compare_items(&self, table: &Table) {
        assert_eq!(table.iter().len(), self.items.len());
        for (view, item) in table.iter().zip(&self.items) {
            assert_eq!(view.data.key, item.key, "items in the order of their insertion");
            assert_eq!(view.priority.to_bits(), item.priority.to_bits(), "priority of {}", item.key);
            assert_eq!(view.times_sampled, item.times_sampled, "samples of {}", item.key);
            assert_eq!(view.data.inserted_at, item.inserted_at, "time of {}", item.key);
            let found = table.get(item.key).expect("an item is found by its key");
            assert_eq!(found.data.sequence, view.data.sequence);
        }
    }
}

fn float(count: i64) -> f64 {
    count as f64
}
