//! Sampling items.

use std::sync::Arc;

use rand_core::Rng;
use relive_prefetch::{prefetch, prefetch_value};
use relive_tensor::ResidenceGuard;

use crate::item::Sampled;
use crate::selector::{Pick, Select, Slot};
use crate::storage::{Freed, Record, State};
use crate::table::Table;

/// The number of samples that are taken together: enough to overlap memory requests.
const STAGE: usize = 128;

impl Table {
    /// Samples an item, and removes it if this was its last permitted sample (see `max_times_sampled`). Returns `None`
    /// if the rate limiter does not allow a sample or the table is empty.
    pub fn sample<R: Rng + ?Sized>(&mut self, rng: &mut R, freed: &mut Freed) -> Option<Sampled> {
        let pick = self.state.pick(rng)?;
        let sampled = self.state.take(pick)?;
        self.notify(pick.slot, |extension, context, view| extension.on_sample(context, view));
        if self.state.is_last_sample(sampled.times_sampled) {
            self.remove_slot(pick.slot, freed);
        }
        Some(sampled)
    }

    /// Samples up to `limit` items, as many as the rate limiter allows, and appends them to `out`. Returns their
    /// number.
    ///
    /// This is equivalent to a sequence of calls to [`sample`](Self::sample).
    pub fn sample_many<R: Rng + ?Sized>(
        &mut self,
        limit: usize,
        rng: &mut R,
        out: &mut Vec<Sampled>,
        freed: &mut Freed,
    ) -> usize {
        let before = out.len();
        if self.extensions.is_empty() && self.state.config.max_times_sampled < 1 {
            self.state.sample_in_stages(limit, rng, out);
        } else {
            out.extend(core::iter::from_fn(|| self.sample(rng, freed)).take(limit));
        }
        out.len() - before
    }
}

impl State {
    /// Returns whether the item is removed after the sample with the given number. As in dm-reverb, an item that was
    /// inserted with a greater count stays. The exception is a table whose limit was changed while the table was in
    /// use: the item may then be older than the change.
    fn is_last_sample(&self, times_sampled: i32) -> bool {
        let limit = self.config.max_times_sampled;
        limit >= 1 && (times_sampled == limit || self.is_limit_changed && times_sampled > limit)
    }

    /// Chooses an item and counts the sample.
    fn pick<R: Rng + ?Sized>(&mut self, rng: &mut R) -> Option<Pick> {
        if !self.limiter.allows_samples(1) {
            return None;
        }
        let pick = self.contents.sampler.pick(rng)?;
        self.limiter.record_sample();
        Some(pick)
    }

    /// Counts a sample of an item.
    pub(super) fn count(&mut self, slot: Slot) -> Option<&Record> {
        self.before_change(slot);
        let record = self.contents.items.get_mut(slot)?;
        self.counters.unique_samples += u64::from(record.times_sampled == 0);
        record.times_sampled = record.times_sampled.saturating_add(1);
        Some(record)
    }

    /// Returns the sample for a chosen item.
    fn take(&mut self, pick: Pick) -> Option<Sampled> {
        let table_size = self.contents.items.len() as u64;
        let record = self.count(pick.slot)?;
        Some(Sampled {
            item: Arc::clone(record.data()),
            priority: record.priority,
            probability: pick.probability,
            table_size,
            times_sampled: record.times_sampled,
            rate_limited: false,
            residence_guard: ResidenceGuard::default(),
        })
    }

    /// Samples items in stages. This requires that sampling changes neither the set of items nor any state that picks
    /// depend on.
    ///
    /// The result is the same as when sampling one item after the other. However, each step of a sample reads memory
    /// that is probably not cached and that determines the next step. Processing samples together overlaps these
    /// latencies.
    fn sample_in_stages<R: Rng + ?Sized>(&mut self, limit: usize, rng: &mut R, out: &mut Vec<Sampled>) {
        let mut picks = Vec::with_capacity(limit.min(STAGE));
        let mut left = limit;
        while left > 0 {
            let granted = self.grant(left.min(STAGE));
            if granted == 0 {
                return;
            }
            picks.clear();
            self.contents.sampler.pick_many(granted, rng, &mut picks);
            self.take_many(&picks, out);
            left -= granted;
        }
    }

    /// Returns chosen items.
    pub(super) fn take_many(&mut self, picks: &[Pick], out: &mut Vec<Sampled>) {
        for stage in picks.chunks(STAGE) {
            self.prefetch(stage);
            out.extend(stage.iter().filter_map(|&pick| self.take(pick)));
        }
    }

    /// Counts up to `wanted` samples, as many as the rate limiter and the table's size allow.
    pub(super) fn grant(&mut self, wanted: usize) -> usize {
        let mut granted = 0;
        while granted < wanted && self.limiter.allows_samples(1) && !self.contents.sampler.is_empty() {
            self.limiter.record_sample();
            granted += 1;
        }
        granted
    }

    /// Prefetches the reference counts of chosen items, and the data that readers access first. Incrementing a count is an
    /// atomic operation: it waits for its memory and blocks later operations.
    fn prefetch(&self, picks: &[Pick]) {
        let items = &self.contents.items;
        items.prefetch_entries(picks.iter().map(|pick| pick.slot));
        for record in picks.iter().filter_map(|pick| items.get(pick.slot)) {
            prefetch_value(&**record.data());
        }
        for record in picks.iter().filter_map(|pick| items.get(pick.slot)) {
            prefetch(record.data().trajectory.chunks());
        }
    }
}
