//! Lists the items of shards.

use relive_table::Sampled;

use super::sharded::ShardedTable;
use crate::limits::MAX_LISTED_ITEMS;
use crate::table::{ItemPage, Published};

impl ShardedTable {
    /// See [`TableHandle::items`](crate::TableHandle::items).
    pub(crate) fn items(&self, from: u64, limit: usize) -> ItemPage {
        let limit = limit.clamp(1, MAX_LISTED_ITEMS);
        let mut page = ItemPage::default();
        let mut has_more = false;
        for core in &self.cores {
            let theirs = core.items(from, limit);
            has_more |= theirs.next.is_some();
            page.items.extend(theirs.items);
            page.items.sort_unstable_by_key(|item| item.data.sequence);
            has_more |= page.items.len() > limit;
            page.items.truncate(limit);
        }
        page.next = page.items.last().filter(|_| has_more).map(|last| last.data.sequence + 1);
        page
    }

    /// Returns the items with the given keys, whether their data is in memory or on disk.
    pub(crate) fn look_up(&self, keys: &[u64]) -> Vec<Option<Sampled>> {
        let mut found: Vec<Option<Sampled>> = keys.iter().map(|_| None).collect();
        for (shard, core) in self.cores.iter().enumerate() {
            let is_theirs = |key: u64| self.place(key) == shard;
            let theirs: Vec<u64> = keys.iter().copied().filter(|&key| is_theirs(key)).collect();
            let places = found.iter_mut().zip(keys).filter(|(_, key)| is_theirs(**key));
            for ((place, _), item) in places.zip(core.look_up(&theirs)) {
                *place = item;
            }
        }
        let size = self.published().map(Published::items).sum();
        found.iter_mut().flatten().for_each(|item| item.table_size = size);
        found
    }
}
