//! The items of a table: an arena of slots, and an index by key.

use std::ops::Range;
use std::sync::Arc;

use core::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use relive_prefetch::{prefetch, prefetch_value};

use super::record::{Layouts, Record};
use crate::item::ItemData;
use crate::selector::Slot;

/// Marks the end of the list of vacant slots.
const END: Slot = Slot::MAX;

/// The seed of the key hash. It is fixed because a table's behavior must depend only on its inputs.
const HASH_SEED: u64 = 0x5265_6c69_7665_2e31;

/// The number of removals for which [`Items::prefetch_removals`] prefetches in advance.
pub(crate) const REMOVALS_AHEAD: usize = 3;

/// An entry that fills one cache line. The wrapper is aligned instead of the enum, because an aligned enum would need
/// more room for its discriminant.
#[derive(Debug)]
#[repr(align(64))]
struct CacheLine(Entry);

#[derive(Debug)]
enum Entry {
    Occupied(Record),
    Vacant(Vacant),
}

/// A slot without an item. It has the alignment of a record. Otherwise, replacing a record with a vacant slot would
/// read bytes in sizes that differ from those in which they were just written, and the processor would stall until the
/// writes reach the cache.
#[derive(Debug)]
#[repr(align(8))]
struct Vacant {
    next: Slot,
}

/// Uses one cache line per slot and about 10 bytes per key, in addition to the memory that an item's `Arc` points to.
/// The most recently vacated slot is filled first, so a full table with a `Fifo` remover reuses its memory in order.
#[derive(Debug)]
pub(crate) struct Items {
    entries: Vec<CacheLine>,
    vacant: Slot,
    by_key: HashTable<Slot>,
    hasher: FixedState,
    layouts: Layouts,
}

impl Default for Items {
    fn default() -> Self {
        let hasher = FixedState::with_seed(HASH_SEED);
        Self {
            entries: Vec::new(),
            vacant: END,
            by_key: HashTable::new(),
            hasher,
            layouts: Layouts::default(),
        }
    }
}

impl Items {
    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(crate) fn find(&self, key: u64) -> Option<Slot> {
        self.find_hashed(self.hash(key), key)
    }

    pub(crate) fn hash(&self, key: u64) -> u64 {
        self.hasher.hash_one(key)
    }

    /// Like [`find`](Self::find), but for a key whose hash is known.
    pub(crate) fn find_hashed(&self, hash: u64, key: u64) -> Option<Slot> {
        let is_it = |&slot: &Slot| self.get(slot).is_some_and(|record| record.key == key);
        self.by_key.find(hash, is_it).copied()
    }

    /// Prefetches the memory that [`find_hashed`](Self::find_hashed) reads.
    pub(crate) fn prefetch_bucket(&self, hash: u64) {
        if let Some(entry) = self.by_key.iter_hash(hash).next().and_then(|&slot| self.entry(slot)) {
            prefetch(entry);
        }
    }

    /// Prefetches the entries of slots.
    pub(crate) fn prefetch_entries(&self, slots: impl Iterator<Item = Slot>) {
        for entry in slots.filter_map(|slot| self.entry(slot)) {
            prefetch(entry);
        }
    }

    fn entry(&self, slot: Slot) -> Option<&CacheLine> {
        self.entries.get(slot as usize)
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&Record> {
        match &self.entries.get(slot as usize)?.0 {
            Entry::Occupied(record) => Some(record),
            Entry::Vacant(_) => None,
        }
    }

    pub(crate) fn get_mut(&mut self, slot: Slot) -> Option<&mut Record> {
        match &mut self.entries.get_mut(slot as usize)?.0 {
            Entry::Occupied(record) => Some(record),
            Entry::Vacant(_) => None,
        }
    }

    /// Returns the layouts of the small items that are or have been in the table.
    pub(crate) fn layouts(&self) -> &Layouts {
        &self.layouts
    }

    /// Adds an item with a new key.
    pub(crate) fn insert(&mut self, data: Arc<ItemData>, priority: f64, times_sampled: i32) -> Slot {
        let record = Record::new(data, priority, times_sampled, &mut self.layouts);
        let hash = self.hash(record.key);
        let slot = self.place(record);
        let (entries, hasher) = (&self.entries, &self.hasher);
        self.by_key.insert_unique(hash, slot, |&slot| match entries.get(slot as usize) {
            Some(CacheLine(Entry::Occupied(record))) => hasher.hash_one(record.key),
            // `by_key` has no vacant slots, so the hash value is arbitrary.
            Some(CacheLine(Entry::Vacant(_))) | None => 0,
        });
        slot
    }

    fn place(&mut self, record: Record) -> Slot {
        if let Some(CacheLine(entry)) = self.entries.get_mut(self.vacant as usize) {
            let slot = self.vacant;
            self.vacant = match entry {
                Entry::Vacant(Vacant { next }) => *next,
                Entry::Occupied(_) => END,
            };
            *entry = Entry::Occupied(record);
            return slot;
        }
        let slot =
            Slot::try_from(self.entries.len()).expect("a table holds at most MAX_TABLE_SIZE + 1 items");
        self.entries.push(CacheLine(Entry::Occupied(record)));
        slot
    }

    pub(crate) fn remove(&mut self, slot: Slot) -> Option<Record> {
        let hash = self.hasher.hash_one(self.get(slot)?.key);
        if let Ok(found) = self.by_key.find_entry(hash, |&candidate| candidate == slot) {
            found.remove();
        }
        let CacheLine(entry) = self.entries.get_mut(slot as usize)?;
        match core::mem::replace(entry, Entry::Vacant(Vacant { next: self.vacant })) {
            Entry::Occupied(record) => {
                self.vacant = slot;
                self.layouts.release(&record);
                Some(record)
            }
            Entry::Vacant(_) => None,
        }
    }

    /// Iterates over all records in slot order.
    pub(crate) fn records(&self) -> impl Iterator<Item = &Record> {
        self.records_in(0..self.entries.len())
    }

    /// Returns the number of slots that are or have been in use.
    pub(crate) fn num_slots(&self) -> usize {
        self.entries.len()
    }

    /// Prefetches the data that the records in some slots refer to. Incrementing their reference counts one by one then
    /// does not wait for memory.
    pub(crate) fn prefetch_data(&self, slots: Range<usize>) {
        self.records_in(slots).for_each(|record| prefetch(Arc::as_ptr(record.data())));
    }

    /// Prefetches the memory that the next `count` removals, and those after them, will read. `slots` is the order of
    /// removal. An item's entry refers to its data, its data to its chunks, and these to their frames. Each call
    /// prefetches only one of these for an item, and the next call the one after it, so that no prefetch waits for
    /// another.
    pub(crate) fn prefetch_removals(&self, count: usize, slots: &[Slot]) {
        let later = |ahead: usize| slots.iter().skip(ahead).take(count).copied();
        let records = |ahead: usize| later(ahead).filter_map(|slot| self.get(slot));
        self.prefetch_entries(later(REMOVALS_AHEAD));
        records(2).for_each(Record::prefetch);
        for record in records(1) {
            self.prefetch_bucket(self.hash(record.key));
            record.first_chunks().for_each(|chunk| prefetch_value(&**chunk));
        }
        records(0).flat_map(Record::first_chunks).for_each(|chunk| chunk.prefetch_frame());
    }

    /// Iterates over the records in some slots, in order.
    pub(crate) fn records_in(&self, slots: Range<usize>) -> impl Iterator<Item = &Record> {
        let end = slots.end.min(self.entries.len());
        let entries = self.entries.get(slots.start.min(end)..end).unwrap_or_default();
        entries.iter().filter_map(|CacheLine(entry)| match entry {
            Entry::Occupied(record) => Some(record),
            Entry::Vacant(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_entry_fits_one_cache_line() {
        assert_eq!(size_of::<CacheLine>(), 64);
    }
}
