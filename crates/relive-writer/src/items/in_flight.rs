//! Items that have been sent but have not been confirmed.

use std::collections::VecDeque;

use super::item::PendingItem;

/// The number by which gaps may exceed items before the gaps are closed. Closing them requires a pass over all items.
const SPARE_GAPS: usize = 64;

/// Items in the order in which they were sent. Confirmations from one table arrive in this order; those from several
/// tables are interleaved. The search for each item therefore starts after the previously confirmed one.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    items: VecDeque<Option<PendingItem>>,
    len: usize,
    /// The position after the most recently confirmed item.
    next: usize,
}

impl InFlight {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn push(&mut self, item: PendingItem) {
        self.items.push_back(Some(item));
        self.len += 1;
    }

    /// Iterates over the items in the order in which they were sent.
    pub(super) fn iter(&self) -> impl Iterator<Item = &PendingItem> {
        self.items.iter().flatten()
    }

    /// Removes the item with the given key.
    pub(super) fn remove(&mut self, key: u64) -> Option<PendingItem> {
        let is_it = |item: &Option<PendingItem>| item.as_ref().is_some_and(|item| item.key == key);
        let behind = self.items.iter().skip(self.next).position(is_it).map(|at| self.next + at);
        let at = behind.or_else(|| self.items.iter().take(self.next).position(is_it))?;
        let item = self.items.get_mut(at).and_then(Option::take);
        self.len -= usize::from(item.is_some());
        self.next = at + 1;
        while let Some(None) = self.items.front() {
            self.items.pop_front();
            self.next = self.next.saturating_sub(1);
        }
        if self.items.len() > 2 * self.len + SPARE_GAPS {
            self.close_gaps();
        }
        item
    }

    /// Closes the gaps that confirmed items have left. Otherwise, if an item were held back for a long time, all gaps
    /// after it would remain.
    fn close_gaps(&mut self) {
        self.next = self.items.iter().take(self.next).flatten().count();
        self.items.retain(Option::is_some);
    }

    /// Removes all items, in order.
    pub(super) fn take(&mut self) -> impl DoubleEndedIterator<Item = PendingItem> {
        std::mem::take(self).items.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn item(key: u64) -> PendingItem {
        PendingItem::new(key, Arc::from("t"), 1.0, &[])
    }

    #[test]
    fn a_blocked_item_does_not_retain_entries_of_confirmed_items() {
        let mut in_flight = InFlight::default();
        in_flight.push(item(0));
        for key in 1..10_000 {
            in_flight.push(item(key));
            // Items are confirmed in pairs, each pair in reverse order.
            if key % 2 == 0 {
                assert_eq!(in_flight.remove(key).map(|item| item.key), Some(key));
                assert_eq!(in_flight.remove(key - 1).map(|item| item.key), Some(key - 1));
            }
            assert!(in_flight.items.len() <= 2 * in_flight.len() + SPARE_GAPS + 1);
        }
        let left: Vec<u64> = in_flight.take().map(|item| item.key).collect();
        assert_eq!(left, [0, 9_999]);
    }
}
