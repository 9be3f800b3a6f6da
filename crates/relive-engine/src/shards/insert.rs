//! Inserts items into shards.

use std::sync::Arc;

use relive_table::NewItem;
use smallvec::SmallVec;

use super::sharded::ShardedTable;
use crate::error::EngineError;
use crate::table::{Accepted, Confirmations};

/// The number of items per shard that are collected before they are inserted: few enough that most shards insert all of
/// their items under a single lock.
const STAGE_PER_SHARD: usize = 32;

/// Items collected for insertion into their shards.
type Stage = SmallVec<[Option<NewItem>; 1]>;

impl ShardedTable {
    /// See [`TableHandle::insert`](crate::TableHandle::insert).
    pub(crate) fn insert(
        &self,
        items: impl IntoIterator<Item = NewItem>,
        who: &Arc<str>,
        confirmations: &Arc<Confirmations>,
        confirmed: &mut Vec<u64>,
    ) -> Result<Accepted, EngineError> {
        let mut items = items.into_iter();
        let Some(first) = items.next() else { return Ok(Accepted::default()) };
        let accepted = match items.next() {
            None => self.core_of(first.key).insert([first], who, confirmations, confirmed),
            Some(second) => {
                let items = [first, second].into_iter().chain(items);
                self.insert_several(items, who, confirmations, confirmed)
            }
        };
        // Waiters are served even if a part of a stage was refused.
        self.serve_waiters();
        accepted
    }

    fn insert_several(
        &self,
        items: impl Iterator<Item = NewItem>,
        who: &Arc<str>,
        confirmations: &Arc<Confirmations>,
        confirmed: &mut Vec<u64>,
    ) -> Result<Accepted, EngineError> {
        let mut items = items.peekable();
        let mut accepted = Ok(Accepted::default());
        while let Ok(before) = accepted {
            let Some(first) = items.next() else { break };
            let stage = self.stage(first, &mut items);
            let inserted = self.insert_stage(stage, who, confirmations, confirmed);
            accepted = inserted.map(|more| before.and(more));
        }
        accepted
    }

    /// Returns the next stage: items that can be inserted in any order. An item whose priority is refused forms its own
    /// stage, so that the items before it are inserted and those after it are not.
    fn stage(&self, first: NewItem, items: &mut std::iter::Peekable<impl Iterator<Item = NewItem>>) -> Stage {
        let is_first_accepted = self.accepts(first.priority);
        let mut stage = Stage::new();
        stage.push(Some(first));
        while is_first_accepted && stage.len() < STAGE_PER_SHARD * self.cores.len() {
            let Some(next) = items.next_if(|item| self.accepts(item.priority)) else { break };
            stage.push(Some(next));
        }
        stage
    }

    fn insert_stage(
        &self,
        mut stage: Stage,
        who: &Arc<str>,
        confirmations: &Arc<Confirmations>,
        confirmed: &mut Vec<u64>,
    ) -> Result<Accepted, EngineError> {
        if let [item] = stage.as_mut_slice() {
            let Some(item) = item.take() else { return Ok(Accepted::default()) };
            return self.core_of(item.key).insert([item], who, confirmations, confirmed);
        }
        let keys: SmallVec<[u64; 1]> = stage.iter().flatten().map(|item| item.key).collect();
        let places: SmallVec<[usize; 1]> = keys.iter().map(|&key| self.place(key)).collect();
        let mut accepted = Accepted::default();
        let before = confirmed.len();
        for shard in self.beginning_with(places.first().copied().unwrap_or(0)) {
            let theirs = stage.iter_mut().zip(&places).filter(|(_, place)| **place == shard);
            let mut theirs = theirs.filter_map(|(item, _)| item.take()).peekable();
            if let (Some(core), Some(_)) = (self.cores.get(shard), theirs.peek()) {
                accepted = accepted.and(core.insert(theirs, who, confirmations, confirmed)?);
            }
        }
        if accepted.deferred == 0 {
            // Restores the order of arrival.
            confirmed.truncate(before);
            confirmed.extend(keys);
        }
        Ok(accepted)
    }

    /// Iterates over every shard once. A batch begins with the shard of its first item, so that concurrent callers
    /// usually start at different shards.
    pub(super) fn beginning_with(&self, first: usize) -> impl Iterator<Item = usize> {
        (first..self.cores.len()).chain(0..first)
    }
}

impl Accepted {
    /// Combines two runs.
    fn and(self, more: Self) -> Self {
        Self { deferred: self.deferred + more.deferred, saturated: self.saturated || more.saturated }
    }
}
