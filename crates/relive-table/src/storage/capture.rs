//! What a table held at one moment, collected while the table goes on.

use std::sync::Arc;

use super::contents::Contents;
use super::items::Items;
use super::record::Record;
use crate::item::ItemData;
use crate::selector::Slot;
use crate::snapshot::StoredItem;

/// Slots that a word of the bit set stands for.
const WORD: usize = u64::BITS as usize;

/// A capture of a table, as [`Table::end_capture`](crate::Table::end_capture) gives it back: drop it where no lock is
/// held.
///
/// The slots are walked in order. Who changes an item that the walk has not reached saves it first, once; what came in
/// after the cut is known by its sequence number. So every item of the moment of the cut is saved or walked over
/// exactly once, as it was then.
#[derive(Debug)]
pub struct Capture {
    /// Sequence number of the first item that came after the cut.
    cut: u64,
    /// The slots of the cut; those behind them came later.
    slots: usize,
    /// Where the walk goes on. What lies before it needs no saving.
    next: usize,
    /// The slots, from `next` on, whose items of the cut were saved.
    saved_slots: Vec<u64>,
    /// The saved items that nobody has fetched yet.
    saved: Vec<StoredItem>,
    /// All that the table held when it was reset, since which it holds nothing of the cut.
    left: Option<Arc<Contents>>,
}

impl Capture {
    pub(crate) fn new(cut: u64, items: &Items) -> Self {
        let slots = items.num_slots();
        let saved_slots = vec![0; slots.div_ceil(WORD)];
        Self { cut, slots, next: 0, saved_slots, saved: Vec::new(), left: None }
    }

    /// Saves an item that is about to change or to leave, if the walk is still to come to it.
    pub(crate) fn save(&mut self, slot: Slot, record: &Record) {
        let slot = slot as usize;
        if slot >= self.next && slot < self.slots && self.is_of_the_cut(record.data()) && self.mark(slot) {
            self.saved.push(stored(record));
        }
    }

    /// Takes over what a table held before its reset.
    pub(crate) fn keep(&mut self, contents: &Arc<Contents>) {
        if self.left.is_none() && self.next < self.slots {
            self.left = Some(Arc::clone(contents));
        }
    }

    /// Fetches what was saved and what lies in the next `limit` slots. Whether there is more.
    pub(crate) fn fetch(&mut self, items: &Items, limit: usize, out: &mut Vec<StoredItem>) -> bool {
        out.append(&mut self.saved);
        let end = self.next.saturating_add(limit).min(self.slots);
        let left = self.left.clone();
        let items = left.as_ref().map_or(items, |contents| &contents.items);
        let walked = self.next..end;
        items.touch(walked.clone());
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

    /// Remembers that the item of the cut in this slot was saved; false if that was known.
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
