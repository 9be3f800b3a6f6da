//! Lists a table's items without counting it as sampling.

use std::ops::RangeInclusive;
use std::sync::Arc;

use relive_table::{ItemData, ItemView, Sampled};
use relive_tensor::ResidenceGuard;

use super::table_core::TableCore;
use crate::limits::{KEYS_PER_LOCK, MAX_LISTED_ITEMS, SLOTS_PER_LOCK};

/// An item, as it was when it was listed.
#[derive(Debug, Clone)]
pub struct ListedItem {
    /// The immutable part.
    pub data: Arc<ItemData>,
    /// Its priority.
    pub priority: f64,
    /// The number of times that the item has been sampled.
    pub times_sampled: i32,
}

/// Some items of a table in insertion order.
#[derive(Debug, Clone, Default)]
pub struct ItemPage {
    /// The items.
    pub items: Vec<ListedItem>,
    /// The start of the next page, or `None` if there are no further items.
    pub next: Option<u64>,
}

impl TableCore {
    /// See [`TableHandle::items`](crate::TableHandle::items).
    pub(crate) fn items(&self, from: u64, limit: usize) -> ItemPage {
        let limit = limit.clamp(1, MAX_LISTED_ITEMS);
        let mut items: Vec<ListedItem> = Vec::new();
        let (mut slot, mut wanted, mut more) = (0, from..=u64::MAX, false);
        while let Some(next) = self.collect(slot, &wanted, &mut items) {
            slot = next;
            // At most two pages of items are kept. If there are more, the later half is dropped, and all items after
            // the remaining ones are skipped from then on.
            if items.len() > limit.saturating_mul(2) {
                more |= cut(&mut items, limit);
                wanted = from..=latest(&items).unwrap_or(u64::MAX);
            }
        }
        more |= cut(&mut items, limit);
        items.sort_unstable_by_key(|item| item.data.sequence);
        let last = items.last().map(|item| item.data.sequence);
        ItemPage { items, next: last.filter(|_| more).map(|last| last + 1) }
    }

    /// Returns the items with the given keys, whether their data is in memory or on disk.
    pub(crate) fn look_up(&self, keys: &[u64]) -> Vec<Option<Sampled>> {
        let mut found = Vec::with_capacity(keys.len());
        for keys in keys.chunks(KEYS_PER_LOCK) {
            self.read(|state| {
                let table_size = state.table.len();
                let views = keys.iter().map(|&key| state.table.get(key));
                found.extend(views.map(|view| view.map(|view| as_sampled(view, table_size))));
            });
        }
        found
    }

    /// Adds those items in some slots whose sequence numbers are in `wanted`, and returns the next slot.
    fn collect(
        &self,
        slot: usize,
        wanted: &RangeInclusive<u64>,
        items: &mut Vec<ListedItem>,
    ) -> Option<usize> {
        let end = slot.saturating_add(SLOTS_PER_LOCK);
        self.read(|state| {
            let views = state.table.items_in_slots(slot..end);
            items.extend(views.filter(|view| wanted.contains(&view.data.sequence)).map(ListedItem::of));
            (end < state.table.num_slots()).then_some(end)
        })
    }
}

impl ListedItem {
    fn of(view: ItemView<'_>) -> ListedItem {
        ListedItem { data: Arc::clone(view.data), priority: view.priority, times_sampled: view.times_sampled }
    }
}

/// Keeps the `limit` items that were inserted first, and returns whether there were more.
fn cut(items: &mut Vec<ListedItem>, limit: usize) -> bool {
    if items.len() <= limit {
        return false;
    }
    items.select_nth_unstable_by_key(limit, |item| item.data.sequence);
    items.truncate(limit);
    true
}

fn latest(items: &[ListedItem]) -> Option<u64> {
    items.iter().map(|item| item.data.sequence).max()
}

fn as_sampled(view: ItemView<'_>, table_size: u64) -> Sampled {
    Sampled {
        item: Arc::clone(view.data),
        priority: view.priority,
        probability: 0.0,
        table_size,
        times_sampled: view.times_sampled,
        rate_limited: false,
        residence_guard: ResidenceGuard::default(),
    }
}
