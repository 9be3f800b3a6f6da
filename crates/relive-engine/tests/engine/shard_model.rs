//! Compares a table in shards with a list of items, over random operations. Sizes, counters, contents (as a set) and
//! probabilities must be the same as for a single table; the shards decide which items leave a full table.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;
use relive_engine::{Engine, Mutation, Rules, SampleRequest, TableHandle};
use relive_table::{RateLimiterConfig, Sampled, SelectorKind, TableConfig};
use relive_testkit::data::item;

#[derive(Debug, Clone)]
enum Op {
    /// Keys and priorities.
    Insert(Vec<(u64, f64)>),
    Sample(usize),
    Update(Vec<(u64, f64)>),
    Delete(u64),
    Reset,
    /// Continues from a snapshot, with this many shards.
    Restore(u32),
}

#[derive(Debug, Default)]
struct Model {
    /// The priority and number of samples of each item, by key.
    items: BTreeMap<u64, (f64, i32)>,
    inserts: i64,
    samples: i64,
    deletes: i64,
    unique: u64,
    /// A restored table divides its size by the items that each shard held, even after a reset.
    was_restored: bool,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let entry =
        || (0..40_u64, prop_oneof![3 => 0.1..9.0, 1 => Just(0.0), 1 => Just(-1.0), 1 => Just(f64::NAN)]);
    let op = prop_oneof![
        6 => prop::collection::vec(entry(), 1..12).prop_map(Op::Insert),
        6 => (1..9_usize).prop_map(Op::Sample),
        3 => prop::collection::vec(entry(), 0..9).prop_map(Op::Update),
        2 => (0..40_u64).prop_map(Op::Delete),
        1 => Just(Op::Reset),
        1 => (1..6_u32).prop_map(Op::Restore),
    ];
    prop::collection::vec(op, 1..60)
}

fn configs() -> impl Strategy<Value = TableConfig> {
    let sampler = prop_oneof![
        Just(SelectorKind::Uniform),
        Just(SelectorKind::Prioritized { exponent: 1.0 }),
        Just(SelectorKind::Prioritized { exponent: 0.4 })
    ];
    let remover =
        prop_oneof![Just(SelectorKind::Fifo), Just(SelectorKind::MinHeap), Just(SelectorKind::Uniform)];
    let size = prop_oneof![Just(1_000_u64), 6..30_u64];
    (sampler, remover, size, 1..6_i64, 0..3_i32, 1..6_u32).prop_map(
        |(sampler, remover, max_size, least, times, shards)| {
            let limiter = RateLimiterConfig::min_size(least).expect("at least 1");
            let config = TableConfig::new("t").sampler(sampler).remover(remover).max_size(max_size);
            config.rate_limiter(limiter).max_times_sampled(times).shards(shards)
        },
    )
}

/// Returns the samples that are available at once, or nothing if the request would wait.
fn sample(table: &TableHandle, limit: usize) -> Vec<Sampled> {
    let request = SampleRequest { limit, max_bytes: u64::MAX, timeout: None, who: "test".into() };
    let future = table.sample(request);
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(batch) => batch.expect("the table is open"),
        Poll::Pending => Vec::new(),
    }
}

impl Model {
    fn accepts(config: &TableConfig, priority: f64) -> bool {
        let kinds = [config.sampler, config.remover];
        kinds.iter().all(|kind| kind.check_priority(priority).is_ok())
    }

    fn insert(&mut self, table: &TableHandle, items: &[(u64, f64)]) {
        let config = table.config().clone();
        let good = items.iter().take_while(|(_, priority)| Self::accepts(&config, *priority)).count();
        let mut confirmed = Vec::new();
        let outcome = table.insert(
            items.iter().map(|&(key, priority)| item(key, priority)),
            &"test".into(),
            &Arc::default(),
            &mut confirmed,
        );
        assert_eq!(outcome.is_ok(), good == items.len());
        let accepted: Vec<u64> = items.iter().take(good).map(|(key, _)| *key).collect();
        assert_eq!(confirmed, accepted);
        let there: BTreeMap<u64, f64> = contents(table).into_iter().map(|(k, (p, _))| (k, p)).collect();
        let deletes = table.info().deletes - self.deletes;
        let few = if self.was_restored { 1 } else { usize::try_from(config.max_size).expect("small") / 6 };
        if self.items.len() + good <= few {
            assert_eq!(deletes, 0, "no shard can be full");
        }
        for &(key, priority) in items.iter().take(good) {
            // An item that left the table during the call is inserted as a new one; any other is updated.
            let times = self.items.get(&key).map_or(0, |(_, times)| *times);
            self.items.insert(key, (priority, times));
        }
        self.items.retain(|key, _| there.contains_key(key));
        let left: BTreeSet<u64> = self.items.keys().copied().collect();
        assert_eq!(left, there.keys().copied().collect());
        self.deletes += deletes;
        self.inserts = self.deletes + i64::try_from(self.items.len()).expect("small");
        for (key, (priority, times)) in &mut self.items {
            assert_eq!(there[key].to_bits(), priority.to_bits());
            *times = contents(table)[key].1;
        }
    }

    fn sample(&mut self, table: &TableHandle, limit: usize) {
        let config = table.config().clone();
        let required = usize::try_from(config.rate_limiter.min_size_to_sample).expect("small");
        let batch = sample(table, limit);
        if config.max_times_sampled < 1 {
            assert_eq!(batch.len(), if self.items.len() >= required { limit } else { 0 });
        }
        for sampled in &batch {
            let key = sampled.item.key;
            let (priority, times) = *self.items.get(&key).expect("it is there");
            if config.max_times_sampled < 1 || limit == 1 {
                let expected = self.probability(&config, priority);
                assert!((sampled.probability - expected).abs() < 1e-9, "{sampled:?} {expected}");
            }
            assert!(sampled.probability > 0.0 && sampled.probability <= 1.0 + 1e-9);
            assert_eq!(sampled.priority.to_bits(), priority.to_bits());
            self.unique += u64::from(times == 0);
            self.samples += 1;
            // Samples of one item may be returned in a different order than they were taken, but each sample number
            // occurs once.
            self.items.insert(key, (priority, times + 1));
        }
        let limit = config.max_times_sampled;
        let before = self.items.len();
        self.items.retain(|_, (_, times)| limit < 1 || *times < limit);
        self.deletes += i64::try_from(before - self.items.len()).expect("small");
    }

    fn probability(&self, config: &TableConfig, priority: f64) -> f64 {
        let SelectorKind::Prioritized { exponent } = config.sampler else {
            return 1.0 / self.items.len() as f64;
        };
        let weight = |priority: f64| if priority == 0.0 { 0.0 } else { priority.powf(exponent) };
        let total: f64 = self.items.values().map(|(priority, _)| weight(*priority)).sum();
        if total == 0.0 { 1.0 / self.items.len() as f64 } else { weight(priority) / total }
    }

    fn update(&mut self, table: &TableHandle, updates: &[(u64, f64)]) {
        let config = table.config().clone();
        let mutations = updates.iter().map(|&(key, priority)| Mutation::Update { key, priority });
        let refused = |(key, priority): &&(u64, f64)| {
            self.items.contains_key(key) && !Self::accepts(&config, *priority)
        };
        let first = updates.iter().position(|update| refused(&update));
        assert_eq!(table.mutate(mutations).is_err(), first.is_some());
        for (key, priority) in updates.iter().take(first.unwrap_or(updates.len())) {
            self.items.entry(*key).and_modify(|item| item.0 = *priority);
        }
    }

    fn delete(&mut self, table: &TableHandle, key: u64) {
        table.mutate([Mutation::Delete { key }]).expect("the table is open");
        self.deletes += i64::from(self.items.remove(&key).is_some());
    }

    fn check(&self, table: &TableHandle) {
        let info = table.info();
        assert_eq!(info.current_size, self.items.len() as u64);
        assert!(info.current_size <= info.config.max_size);
        let counters = (info.inserts, info.samples, info.deletes, info.num_unique_samples);
        assert_eq!(counters, (self.inserts, self.samples, self.deletes, self.unique));
        assert_eq!(info.num_episodes, u64::from(info.current_size > 0));
        assert_eq!(table.status().bytes.chunks, info.current_size);
        let bits = |items: BTreeMap<u64, (f64, i32)>| -> Vec<_> {
            items.into_iter().map(|(key, (priority, times))| (key, priority.to_bits(), times)).collect()
        };
        assert_eq!(bits(contents(table)), bits(self.items.clone()));
    }
}

fn contents(table: &TableHandle) -> BTreeMap<u64, (f64, i32)> {
    let page = table.items(0, 1_000);
    page.items.iter().map(|item| (item.data.key, (item.priority, item.times_sampled))).collect()
}

fn follow(config: &TableConfig, ops: &[Op]) {
    let build = |config: TableConfig| Engine::builder().table(config).seed(11);
    let mut engine = build(config.clone()).build().expect("the rules are valid");
    let mut model = Model::default();
    for op in ops {
        let table = engine.table("t").expect("it is there").clone();
        match op {
            Op::Insert(items) => model.insert(&table, items),
            Op::Sample(limit) => model.sample(&table, *limit),
            Op::Update(updates) => model.update(&table, updates),
            Op::Delete(key) => model.delete(&table, *key),
            Op::Reset => {
                table.reset().expect("the table is open");
                model = Model { was_restored: model.was_restored, ..Model::default() };
            }
            Op::Restore(shards) => {
                let again = build(config.clone().shards(*shards));
                let restored = again.build_from(engine.snapshot(), Rules::Stored);
                engine = restored.expect("the snapshot is valid").engine;
                model.was_restored = true;
                let size = engine.table("t").expect("it is there").info().current_size;
                // An item leaves if the division among shards has no room for it.
                if size < model.items.len() as u64 {
                    let there = contents(&engine.table("t").expect("it is there"));
                    model.deletes += i64::try_from(model.items.len() - there.len()).expect("small");
                    model.items.retain(|key, _| there.contains_key(key));
                    assert!(model.items.len() as u64 + u64::from(*shards) > config.max_size);
                }
            }
        }
        model.check(&engine.table("t").expect("it is there"));
    }
}

/// The second shard of the restored table gets a size of 1, and therefore evicts although the table is nearly empty.
#[test]
fn a_restored_table_keeps_the_division_of_its_size_after_a_reset() {
    let config = TableConfig::new("t").max_size(12);
    let insert = |keys: &[u64]| Op::Insert(keys.iter().map(|key| (*key, 1.0)).collect());
    let filled = insert(&[0, 3, 29, 39, 1, 14, 20, 2, 4, 5, 6, 7]);
    follow(&config, &[filled, Op::Restore(5), Op::Reset, insert(&[7, 9])]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_sharded_table_matches_the_table_model(config in configs(), history in ops()) {
        follow(&config, &history);
    }
}
