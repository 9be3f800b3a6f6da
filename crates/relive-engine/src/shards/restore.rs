//! Restores a sharded table from a snapshot with any number of shards.

use std::sync::Arc;

use rand_xoshiro::Xoshiro256PlusPlus;
use relive_table::{
    Common, Freed, RestoreError, StoredItem, Table, TableConfig, TableCounters, TableSnapshot,
};

use super::placement::{divide, shard_of};
use super::sharded::{ShardedTable, rules_of_shard};
use crate::memory::Memory;

impl ShardedTable {
    /// Returns a table with the given content, and the number of items that the removers evicted because they exceeded
    /// `max_size`.
    ///
    /// # Errors
    /// The errors of [`Table::restored`].
    pub(crate) fn restored(
        config: TableConfig,
        content: TableSnapshot,
        mut rng: Xoshiro256PlusPlus,
        memory: &Arc<Memory>,
    ) -> Result<(Self, usize), RestoreError> {
        config.validate_ranges()?;
        check_order(&config, &content.items)?;
        let parts = split(&config, content)?;
        let held: Vec<u64> = parts.iter().map(|part| part.items.len() as u64).collect();
        let common = Common::new(Arc::clone(memory.ledger()), parts.len());
        let mut freed = Freed::default();
        let sizes = divide(config.max_size, &held).into_iter();
        let shards = parts.into_iter().zip(sizes).enumerate().map(|(shard, (part, max_size))| {
            let rules = rules_of_shard(&config, max_size);
            Table::restored_shard(rules, &common, shard, part, &mut rng, &mut freed)
        });
        let shards = shards.collect::<Result<Vec<_>, _>>()?;
        Ok((Self::of(config, common, shards, rng, memory), freed.len()))
    }
}

/// Checks the order of the items here, because each shard receives only its own items.
fn check_order(config: &TableConfig, items: &[StoredItem]) -> Result<(), RestoreError> {
    let sequence = |item: &StoredItem| item.data.sequence;
    match items.windows(2).find(|two| matches!(two, [a, b] if sequence(a) >= sequence(b))) {
        Some(two) => {
            let key = two.last().map_or(0, |item| item.data.key);
            Err(RestoreError::Order { table: config.name.clone(), key })
        }
        None => Ok(()),
    }
}

/// Splits the content by shard. Counters that cannot be split are assigned to the first shard, so that the sums are
/// right.
fn split(config: &TableConfig, content: TableSnapshot) -> Result<Vec<TableSnapshot>, RestoreError> {
    let TableSnapshot { counters, items, config: rules, .. } = content;
    let (inserts, deletes, held) = (counters.inserts, counters.deletes, items.len());
    let size = inserts.checked_sub(deletes).and_then(|size| usize::try_from(size).ok());
    if size != Some(held) {
        return Err(RestoreError::Counters { table: config.name.clone(), inserts, deletes, items: held });
    }
    let empty = || TableSnapshot {
        config: Arc::clone(&rules),
        counters: TableCounters::default(),
        items: Vec::new(),
        structure: None,
    };
    let mut parts: Vec<_> = (0..config.shards).map(|_| empty()).collect();
    let shards = parts.len();
    for item in items {
        if let Some(part) = parts.get_mut(shard_of(item.data.key, shards)) {
            part.counters.inserts += 1;
            part.items.push(item);
        }
    }
    if let Some(first) = parts.first_mut() {
        let inserts = first.counters.inserts + deletes;
        first.counters = TableCounters { inserts, ..counters };
    }
    Ok(parts)
}
