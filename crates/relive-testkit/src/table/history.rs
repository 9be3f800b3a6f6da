//! Random histories of operations.

use proptest::collection::vec;
use proptest::prelude::*;
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use relive_table::{
    ErrorBuffer, Freed, NewItem, RateLimiterConfig, Sampled, Table, TableChange, TableConfig, Timestamp,
};
use relive_tensor::Chunk;
use std::sync::Arc;

use super::NaiveTable;
use crate::data;
use crate::selector::kinds;

/// One operation.
#[derive(Clone, Debug)]
pub enum Op {
    /// Inserts an item with the given chunks; chunk n belongs to episode n / 3 and has 1 + n % 4 steps. Items with the
    /// same numbers share chunks.
    Insert {
        /// The item's key.
        key: u64,
        /// Its priority.
        priority: f64,
        /// The number of times that the item counts as sampled.
        times_sampled: i32,
        /// Its chunks.
        chunks: Vec<u8>,
    },
    /// Samples up to this many items.
    Sample(usize),
    /// Changes a priority.
    Update {
        /// The item's key.
        key: u64,
        /// Its new priority.
        priority: f64,
    },
    /// Changes priorities by key, in one call.
    UpdateMany(Vec<(u64, f64)>),
    /// Deletes the item with the given key.
    Delete(u64),
    /// Changes the rules.
    Change(TableChange),
    /// Resets the table.
    Reset,
}

/// The number of chunks that the items of a history use.
const CHUNKS: u8 = 12;

fn keys() -> impl Strategy<Value = u64> {
    0_u64..14
}

/// Returns mostly ordinary priorities, and every value that some selector treats specially.
fn priorities() -> impl Strategy<Value = f64> {
    let edges = vec![0.0, -0.0, -1.0, f64::NAN, f64::INFINITY, 1e-300, 1e300, f64::MAX];
    prop_oneof![
        8 => (0_u8..6).prop_map(|n| f64::from(n) * 0.5),
        1 => proptest::sample::select(edges),
    ]
}

fn ops() -> impl Strategy<Value = Op> {
    let times_sampled = prop_oneof![5 => Just(0), 1 => -2..4];
    let insert = (keys(), priorities(), times_sampled, vec(0..CHUNKS, 1..4)).prop_map(
        |(key, priority, times_sampled, chunks)| Op::Insert { key, priority, times_sampled, chunks },
    );
    prop_oneof![
        30 => insert,
        20 => (0_usize..70).prop_map(|n| Op::Sample(if n < 60 { n % 4 } else { n })),
        10 => (keys(), priorities()).prop_map(|(key, priority)| Op::Update { key, priority }),
        // The maximum is greater than the number of updates that are processed together.
        5 => vec((keys(), priorities()), 0..150).prop_map(Op::UpdateMany),
        8 => keys().prop_map(Op::Delete),
        4 => changes().prop_map(Op::Change),
        1 => Just(Op::Reset),
    ]
}

/// Returns changes, most of which concern one rule. Some changes are refused, and pauses are short.
fn changes() -> impl Strategy<Value = TableChange> {
    let pauses = (0_u8..6).prop_map(|n| TableChange::new().pause_inserts(n == 0).pause_samples(n == 1));
    prop_oneof![
        3 => (0_u64..9).prop_map(|size| TableChange::new().max_size(size)),
        2 => (0_u64..120).prop_map(|bytes| TableChange::new().max_bytes((bytes < 100).then_some(bytes))),
        1 => (-1..4).prop_map(|times| TableChange::new().max_times_sampled(times)),
        3 => limiters().prop_map(|limiter| TableChange::new().rate_limiter(limiter)),
        3 => pauses,
    ]
}

/// Returns histories of up to 120 operations over a few keys, so that keys recur.
pub fn histories() -> impl Strategy<Value = Vec<Op>> {
    vec(ops(), 1..120)
}

fn limiters() -> impl Strategy<Value = RateLimiterConfig> {
    let ratio = (1_u8..10, 1_i64..4).prop_map(|(quarters, size)| {
        let ratio = f64::from(quarters) / 4.0;
        let buffer = ErrorBuffer::Around(2.0 * ratio.max(1.0));
        RateLimiterConfig::sample_to_insert_ratio(ratio, size, buffer).expect("the buffer is wide enough")
    });
    let min_size = (1_i64..5).prop_map(|size| RateLimiterConfig::min_size(size).expect("sizes from 1"));
    prop_oneof![3 => min_size, 2 => ratio, 1 => (1_u32..5).prop_map(RateLimiterConfig::queue)]
}

/// Returns configurations of small tables with every sampler, remover and kind of rate limiter.
pub fn configs() -> impl Strategy<Value = TableConfig> {
    let kind = || proptest::sample::select(kinds());
    // A chunk has 4 to 16 bytes, an item at most 48.
    let max_bytes = prop_oneof![1 => Just(None), 1 => (1_u64..120).prop_map(Some)];
    (kind(), kind(), 1_u64..9, max_bytes, -1..4, limiters()).prop_map(
        |(sampler, remover, size, max_bytes, times, limiter)| {
            let config = TableConfig::new("random").sampler(sampler).remover(remover).max_size(size);
            // Rules under which no item is ever sampled are also tested.
            let config = config.allow_never_sampled(true);
            let config = config.max_times_sampled(times).rate_limiter(limiter);
            TableConfig { max_bytes, ..config }
        },
    )
}

/// Runs a history on a table and on the model in parallel, and returns every sample of the table.
///
/// # Panics
/// If the table and the model differ after any operation.
pub fn follow(config: &TableConfig, history: &[Op], seed: u64) -> Vec<Sampled> {
    let mut table = Table::new(config.clone(), Vec::new()).expect("the strategy makes valid configurations");
    let mut model = NaiveTable::new(config.clone());
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut freed = Freed::default();
    let chunk = |n: u8| data::chunk(n.into(), (n / 3).into(), 0, (1 + n % 4).into());
    let chunks: Vec<_> = (0..CHUNKS).map(chunk).collect();
    let mut all = Vec::new();
    for (nanos, op) in (0..).zip(history) {
        let now = Timestamp::from_nanos(nanos);
        all.append(&mut step(&mut table, &mut model, op, &chunks, now, &mut rng, &mut freed));
        model.compare(&table);
    }
    all
}

fn step(
    table: &mut Table,
    model: &mut NaiveTable,
    op: &Op,
    pool: &[Arc<Chunk>],
    now: Timestamp,
    rng: &mut Xoshiro256PlusPlus,
    freed: &mut Freed,
) -> Vec<Sampled> {
    let mut sampled = Vec::new();
    match *op {
        // A blocked insert waits outside the table.
        Op::Insert { .. } if !model.can_insert(1) => {}
        Op::Insert { key, priority, times_sampled, ref chunks } => {
            let chunks: Vec<_> =
                chunks.iter().map(|&number| Arc::clone(&pool[usize::from(number)])).collect();
            let item = NewItem { key, priority, times_sampled, trajectory: data::trajectory(&chunks) };
            // The call must not affect the table, whichever keys it is given.
            table.expect_inserts(&[key, key.wrapping_add(1), key]);
            let outcome = table.insert(item.clone(), now, rng, freed);
            model.insert(&item, now, outcome);
        }
        Op::Sample(limit) => {
            let taken = table.sample_many(limit, rng, &mut sampled, freed);
            assert_eq!(taken, sampled.len());
            sampled.iter().for_each(|sampled| model.sample(Some(sampled)));
            if taken < limit {
                model.sample(None);
            }
        }
        Op::Update { key, priority } => {
            model.update(key, priority, table.update_priority(key, priority).ok());
        }
        Op::UpdateMany(ref updates) => {
            model.update_many(updates, table.update_priorities(updates).map_err(|refused| refused.key));
        }
        Op::Delete(key) => model.delete(key, table.delete(key, freed)),
        Op::Change(ref change) => {
            let changed = table.change(change).is_ok();
            model.change(change, changed, &shrink(table, model, rng, freed));
        }
        Op::Reset => {
            table.reset(freed);
            model.reset();
        }
    }
    sampled
}

/// Evicts items one by one, and returns them.
fn shrink(
    table: &mut Table,
    model: &NaiveTable,
    rng: &mut Xoshiro256PlusPlus,
    freed: &mut Freed,
) -> Vec<u64> {
    let mut keys = model.keys();
    let mut left = Vec::new();
    while table.shrink(1, rng, freed) > 0 {
        left.extend(keys.extract_if(.., |key| !table.contains(*key)));
    }
    left
}
