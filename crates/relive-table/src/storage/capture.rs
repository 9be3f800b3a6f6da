//! A capture: the content of a table at one point in time, collected while the table stays in use.

use std::sync::Arc;

use super::contents::Contents;
use super::items::Items;
use super::record::Record;
use crate::item::ItemData;
use crate::selector::Slot;
use crate::snapshot::StoredItem;

/// The number of slots per word of the bit set.
const WORD: usize = u64::BITS as usize;

/// A capture of a table, returned by [`Table::end_capture`](crate::Table::end_capture). Drop it outside any lock.
///
/// The capture walks over the slots in order. Before an operation changes an item that the walk has not reached, it
/// saves the item, unless it is already saved. Items inserted after the cut are recognized by their sequence numbers.
/// Every item that was in the table at the cut is therefore saved or visited exactly once, in the state that it had
/// then.
#[derive(Debug)]
pub struct Capture {
    /// The sequence number of the first item inserted after the cut.
    cut: u64,
    /// The number of slots at the cut. Later slots were added afterwards.
    slots: usize,
    /// The slot where the walk continues. Items before it need not be saved.
    next: usize,
    /// A bit set, from slot `next` on, of the slots whose items have been saved.
    saved_slots: Vec<u64>,
    /// Saved items that have not been fetched yet.
    saved: Vec<StoredItem>,
    /// The content of the table when it was reset. After the reset, the table has no items from before the cut.
    left: Option<Arc<Contents>>,
}

impl Capture {
    pub(crate) fn new(cut: u64, items: &Items) -> Self {
        let slots = items.num_slots();
        let saved_slots = vec![0; slots.div_ceil(WORD)];
        Self { cut, slots, next: 0, saved_slots, saved: Vec::new(), left: None }
    }

    /// Saves an item that is about to change or leave, unless the walk has already reached it.
    pub(crate) fn save(&mut self, slot: Slot, record: &Record) {
        let slot = slot as usize;
        if slot >= self.next && slot < self.slots && self.is_of_the_cut(record.data()) && self.mark(slot) {
            self.saved.push(stored(record));
        }
    }

    /// Keeps the content that the table had before its reset.
    pub(crate) fn keep(&mut self, contents: &Arc<Contents>) {
        if self.left.is_none() && self.next < self.slots {
            self.left = Some(Arc::clone(contents));
        }
    }

    /// Fetches the saved items and those in the next `limit` slots. Returns whether there are more.
    pub(crate) fn fetch(&mut self, items: &Items, limit: usize, out: &mut Vec<StoredItem>) -> bool {
        out.append(&mut self.saved);
        let end = self.next.saturating_add(limit).min(self.slots);
        let left = self.left.clone();
        let items = left.as_ref().map_or(items, |contents| &contents.items);
        let walked = self.next..end;
        items.prefetch_data(walked.clone());
        for slot in walked {
            let Some(record) = Slot::try_from(slot).ok().and_then(|slot| items.get(slot)) else { continue };
            if self.is_of_the_cut(record.data()) && !self.is_marked(slot) {
                out.push(stored(record));
            }
        }
        self.next = end;
        end < self.slots
    }

    fn is_of_the_cut(&self, item: &ItemData) -> bool {
        item.sequence < self.cut
    }

    /// Marks the item in this slot as saved. Returns false if it already was.
    fn mark(&mut self, slot: usize) -> bool {
        let Some(word) = self.saved_slots.get_mut(slot / WORD) else { return false };
        let bit = 1 << (slot % WORD);
        let fresh = *word & bit == 0;
        *word |= bit;
        fresh
    }

    fn is_marked(&self, slot: usize) -> bool {
        self.saved_slots.get(slot / WORD).is_some_and(|word| word & 1 << (slot % WORD) != 0)
    }
}

fn stored(record: &Record) -> StoredItem {
    StoredItem {
        data: Arc::clone(record.data()),
        priority: record.priority,
        times_sampled: record.times_sampled,
    }
}
