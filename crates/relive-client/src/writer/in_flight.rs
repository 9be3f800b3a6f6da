//! Items that were sent and are not confirmed.

use std::collections::VecDeque;

use super::item::PendingItem;

/// In the order in which they were sent. Confirmations come nearly in that order: those of one table in it, those of several
/// mixed, so that each is looked for behind the one before.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    items: VecDeque<Option<PendingItem>>,
    len: usize,
    /// Behind the item that was confirmed last.
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

    /// Takes the item of this key out.
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
        item
    }

    /// Takes all out, in their order.
    pub(super) fn take(&mut self) -> impl DoubleEndedIterator<Item = PendingItem> {
        std::mem::take(self).items.into_iter().flatten()
    }
}
