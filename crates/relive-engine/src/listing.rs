//! Looking at the items of a table, without counting it as sampling.

use std::sync::Arc;

use relive_table::{ItemData, ItemView, Sampled};
use relive_tensor::AtHand;

use crate::EngineError;
use crate::handle::TableHandle;
use crate::limits::{KEYS_PER_LOCK, MAX_LISTED_ITEMS, SLOTS_PER_LOCK};

/// An item as it was when the table was looked at.
#[derive(Debug, Clone)]
pub struct ListedItem {
    /// The part that never changes.
    pub data: Arc<ItemData>,
    /// Its priority.
    pub priority: f64,
    /// How often it was sampled.
    pub times_sampled: i32,
}

/// Some items of a table in the order of their insertion.
#[derive(Debug, Clone, Default)]
pub struct ItemPage {
    /// The items.
    pub items: Vec<ListedItem>,
    /// Where the next page begins; `None` if there are no further items.
    pub next: Option<u64>,
}

impl TableHandle {
    /// Up to `limit` items in the order of their insertion, beginning at `from`: 0, or what the page before says.
    ///
    /// A page looks through the whole table, in parts, so that others come in between: items that come or leave meanwhile may
    /// or may not be on it. Large pages are better than many.
    #[must_use]
    pub fn items(&self, from: u64, limit: usize) -> ItemPage {
        let limit = limit.clamp(1, MAX_LISTED_ITEMS);
        let mut items: Vec<ListedItem> = Vec::new();
        let (mut slot, mut more) = (0, false);
        while let Some(next) = self.collect(slot, from, &mut items) {
            slot = next;
            // Twice the page is kept at most; the half with the later items is not on it.
            if items.len() > limit.saturating_mul(2) {
                more |= cut(&mut items, limit);
            }
        }
        more |= cut(&mut items, limit);
        items.sort_unstable_by_key(|item| item.data.sequence);
        let last = items.last().map(|item| item.data.sequence);
        ItemPage { items, next: last.filter(|_| more).map(|last| last + 1) }
    }

    /// The items of these keys, each `None` if there is none; each as if it had just been sampled, with a probability of 0.
    ///
    /// # Errors
    /// Data of an item lies on disk and cannot be read back.
    pub async fn get_items(&self, keys: &[u64]) -> Result<Vec<Option<Sampled>>, EngineError> {
        let mut found = self.look_up(keys);
        if let Some(cold) = self.shared.cold.get() {
            let near = match cold.fetch(self.name(), found.iter().flatten().cloned().collect()) {
                Ok(near) => near,
                Err(fetch) => fetch.await?,
            };
            found.iter_mut().flatten().zip(near).for_each(|(found, near)| *found = near);
        }
        Ok(found)
    }

    fn look_up(&self, keys: &[u64]) -> Vec<Option<Sampled>> {
        let mut found = Vec::with_capacity(keys.len());
        for keys in keys.chunks(KEYS_PER_LOCK) {
            self.look(|state| {
                let table_size = state.table.len();
                let views = keys.iter().map(|&key| state.table.get(key));
                found.extend(views.map(|view| view.map(|view| as_sampled(view, table_size))));
            });
        }
        found
    }

    /// Adds the items of some slots; tells the next slot.
    fn collect(&self, slot: usize, from: u64, items: &mut Vec<ListedItem>) -> Option<usize> {
        let end = slot.saturating_add(SLOTS_PER_LOCK);
        self.look(|state| {
            let views = state.table.items_in_slots(slot..end);
            items.extend(views.filter(|view| view.data.sequence >= from).map(ListedItem::of));
            (end < state.table.num_slots()).then_some(end)
        })
    }
}

impl ListedItem {
    fn of(view: ItemView<'_>) -> ListedItem {
        ListedItem { data: Arc::clone(view.data), priority: view.priority, times_sampled: view.times_sampled }
    }
}

/// Keeps the `limit` items that were inserted first; whether there were more.
fn cut(items: &mut Vec<ListedItem>, limit: usize) -> bool {
    if items.len() <= limit {
        return false;
    }
    items.select_nth_unstable_by_key(limit, |item| item.data.sequence);
    items.truncate(limit);
    true
}

fn as_sampled(view: ItemView<'_>, table_size: u64) -> Sampled {
    Sampled {
        item: Arc::clone(view.data),
        priority: view.priority,
        probability: 0.0,
        table_size,
        times_sampled: view.times_sampled,
        rate_limited: false,
        at_hand: AtHand::default(),
    }
}
