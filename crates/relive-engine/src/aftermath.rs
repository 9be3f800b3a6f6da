//! What a change of a table leaves to be done once its lock is gone.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::Instant;

use relive_table::{Effect, Freed, NewItem};

use crate::confirmations::{Confirmations, Outcome};
use crate::limits::EXTENSION_INSERT_TIMEOUT;
use crate::table_core::TableCore;

/// References to drop, outcomes to report, tasks to wake, and inserts that extensions asked for in other tables.
#[derive(Debug, Default)]
pub(crate) struct Aftermath {
    pub(crate) freed: Freed,
    /// Encoded bytes that new items refer to.
    pub(crate) added_bytes: u64,
    pub(crate) given_up: Vec<NewItem>,
    pub(crate) settled: Vec<(Arc<Confirmations>, Outcome)>,
    pub(crate) wakers: Vec<Waker>,
    pub(crate) effects: Vec<Effect>,
}

impl Aftermath {
    pub(crate) fn is_nothing(&self) -> bool {
        let Self { freed, added_bytes, given_up, settled, wakers, effects } = self;
        let is_quiet = settled.is_empty() && wakers.is_empty() && effects.is_empty();
        is_quiet && freed.is_empty() && *added_bytes == 0 && given_up.is_empty()
    }

    /// Does it all; `table` is the one that was changed.
    pub(crate) fn settle(self, table: &TableCore) {
        let mut effects = self.settle_own(table);
        while let Some((from, effect)) = effects.pop() {
            let Some(peers) = from.shared.peers.get().and_then(std::sync::Weak::upgrade) else { continue };
            let Effect::InsertInto { table: name, item } = effect;
            let Some(target) = peers.get(&name) else {
                tracing::warn!(
                    table = from.name(),
                    target = &*name,
                    "an extension names a table that does not exist"
                );
                continue;
            };
            let who: Arc<str> = format!("extension of table {}", from.name()).into();
            let core = target.core_of(item.key);
            let after = core.insert_detached(item, &who, Instant::now() + EXTENSION_INSERT_TIMEOUT);
            effects.append(&mut after.settle_own(core));
            target.serve_waiters();
        }
    }

    /// All but the effects on other tables, which are given back with the table they came from.
    fn settle_own(self, table: &TableCore) -> Vec<(TableCore, Effect)> {
        report(self.settled);
        self.wakers.into_iter().for_each(Waker::wake);
        let referenced = &table.shared.referenced_bytes;
        if self.added_bytes > 0 {
            referenced.fetch_add(self.added_bytes.cast_signed(), Ordering::Relaxed);
            if let Some(cold) = table.shared.cold.get() {
                cold.look();
            }
        }
        if !self.freed.is_empty() {
            let bytes: u64 = self.freed.removed().map(|item| item.trajectory.encoded_size_bytes()).sum();
            referenced.fetch_sub(bytes.cast_signed(), Ordering::Relaxed);
            drop(self.freed);
            table.shared.memory.freed();
        }
        self.effects.into_iter().map(|effect| (table.clone(), effect)).collect()
    }
}

/// Tells each stream its outcomes, one lock and one wake-up per run of the same stream.
fn report(settled: Vec<(Arc<Confirmations>, Outcome)>) {
    let mut settled = settled.into_iter().peekable();
    while let Some((stream, first)) = settled.next() {
        let mut outcomes = vec![first];
        while let Some((_, next)) = settled.next_if(|(other, _)| Arc::ptr_eq(other, &stream)) {
            outcomes.push(next);
        }
        if let Some(waker) = stream.settle(outcomes) {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use relive_table::TableConfig;
    use relive_testkit::data;

    use super::*;
    use crate::request::Mutation;
    use crate::{Engine, TableHandle};

    /// What the table tells while an insert of one thread is not counted yet and a delete of another is.
    fn told_between(table: &TableHandle, keys: std::ops::Range<u64>) -> u64 {
        let who: Arc<str> = "test".into();
        let inserted: Vec<_> = keys
            .clone()
            .map(|key| {
                let core = table.core_of(key);
                (core, core.insert_detached(data::item(key, 1.0), &who, Instant::now()))
            })
            .collect();
        table.mutate(keys.map(|key| Mutation::Delete { key })).expect("the table is open");
        let told = table.status().referenced_bytes;
        inserted.into_iter().for_each(|(core, after)| after.settle(core));
        told
    }

    #[test]
    fn a_delete_that_is_counted_before_its_insert_makes_no_number_of_all_bits() {
        for shards in [1, 3] {
            let config = TableConfig::new("t").shards(shards);
            let engine = Engine::builder().table(config).seed(7).build().expect("it is in range");
            let table = engine.table("t").expect("it was made");
            assert_eq!((told_between(&table, 0..9), table.status().referenced_bytes), (0, 0), "{shards}");
        }
    }
}
