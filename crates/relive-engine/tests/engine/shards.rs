//! Tests that a table behaves the same way with one core as with several shards.
#![expect(clippy::unwrap_used, reason = "a refusal where none is due ends the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::common::{self, Writer, request};
use relive_engine::{
    Engine, EngineError, ErrorKind, ListedItem, Mutation, Operation, Rules, SampleFuture, SampleRequest,
    TableHandle,
};
use relive_table::{
    InsertOnFirstSample, NewItem, RateLimiterConfig, Sampled, SelectorKind, Shortfall, Statistics,
    TableConfig,
};
use relive_testkit::data::{chunk, trajectory};

const PRIORITIZED: SelectorKind = SelectorKind::Prioritized { exponent: 1.0 };

/// Runs a test on tables with one core and with several shards.
fn each(test: impl Fn(TableConfig)) {
    for shards in [1, 3] {
        test(TableConfig::new("t").shards(shards));
    }
}

fn min_size(items: i64) -> RateLimiterConfig {
    RateLimiterConfig::min_size(items).unwrap()
}

fn engine(config: TableConfig) -> (Engine, TableHandle) {
    common::engine(config)
}

fn poll(future: &mut SampleFuture) -> Poll<Result<Vec<Sampled>, EngineError>> {
    std::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn ready(future: &mut SampleFuture) -> Vec<Sampled> {
    match poll(future) {
        Poll::Ready(batch) => batch.unwrap(),
        Poll::Pending => panic!("the samples are due"),
    }
}

fn sample(table: &TableHandle, limit: usize) -> Vec<Sampled> {
    ready(&mut table.sample(request(limit)))
}

fn with_priority(key: u64, priority: f64) -> NewItem {
    NewItem { priority, ..common::item(key) }
}

/// Inserts items that do not have to wait.
fn insert(table: &TableHandle, items: impl IntoIterator<Item = NewItem>) -> Result<Vec<u64>, EngineError> {
    let mut confirmed = Vec::new();
    let accepted = table.insert(items, &"writer".into(), &Arc::default(), &mut confirmed)?;
    assert_eq!(accepted.deferred, 0);
    Ok(confirmed)
}

fn listed(table: &TableHandle) -> Vec<(u64, f64)> {
    table.items(0, 100_000).items.iter().map(|item| (item.data.key, item.priority)).collect()
}

#[test]
fn inserts_are_confirmed_and_listed_in_their_order() {
    each(|config| {
        let (_engine, table) = engine(config);
        let keys: Vec<u64> = (0..500).map(|key| key * 7 % 500).collect();
        assert_eq!(insert(&table, keys.iter().map(|&key| common::item(key))).unwrap(), keys);
        let first = table.items(0, 200);
        let second = table.items(first.next.unwrap(), 200);
        let third = table.items(second.next.unwrap(), 200);
        let pages = [first, second, third];
        let there: Vec<u64> = pages.iter().flat_map(|page| &page.items).map(|item| item.data.key).collect();
        if table.config().shards == 1 {
            assert_eq!(there, keys);
        }
        // The items of one page are in insertion order.
        let is_sorted = |items: &[_]| items.is_sorted_by_key(|item: &ListedItem| item.data.sequence);
        assert!(pages.iter().all(|page| is_sorted(&page.items)));
        assert_eq!(there.iter().collect::<BTreeSet<_>>(), keys.iter().collect());
        assert_eq!(pages.map(|page| page.items.len()), [200, 200, 100]);
        assert_eq!((table.info().current_size, table.info().inserts), (500, 500));
    });
}

#[test]
fn a_known_key_is_updated_and_found_in_any_shard() {
    each(|config| {
        let (_engine, table) = engine(config.sampler(PRIORITIZED));
        insert(&table, (0..50).map(common::item)).unwrap();
        insert(&table, [with_priority(7, 9.0)]).unwrap();
        let change = [Mutation::Update { key: 8, priority: 3.0 }, Mutation::Delete { key: 9 }];
        table.mutate(change.into_iter().chain([Mutation::Delete { key: 99 }])).unwrap();
        let info = table.info();
        assert_eq!((info.current_size, info.inserts, info.deletes), (49, 50, 1));
        let found = futures_ready(table.get_items(&[7, 8, 9, 10])).unwrap();
        let actual: Vec<_> =
            found.iter().map(|item| item.as_ref().map(|item| (item.priority, item.table_size))).collect();
        assert_eq!(actual, [Some((9.0, 49)), Some((3.0, 49)), None, Some((1.0, 49))]);
    });
}

fn futures_ready<T>(future: impl Future<Output = T>) -> T {
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("there is nothing to wait for"),
    }
}

#[test]
fn a_refused_priority_ends_the_call_after_the_preceding_items() {
    each(|config| {
        let (_engine, table) = engine(config.sampler(PRIORITIZED));
        let mut items: Vec<_> = (0..100).map(common::item).collect();
        items[60].priority = -1.0;
        let mut confirmed = Vec::new();
        let error = table.insert(items, &"writer".into(), &Arc::default(), &mut confirmed).unwrap_err();
        let text = error.to_string();
        assert!(
            matches!(error, EngineError::Priority { key: 60, .. }) && text.contains("negative"),
            "{text}"
        );
        assert_eq!(confirmed, (0..60).collect::<Vec<_>>());
        assert_eq!(table.info().current_size, 60);
        let update = |key, priority| Mutation::Update { key, priority };
        // The priority is not checked if the item does not exist.
        let updates =
            [update(1, 2.0), update(77, f64::NAN), update(2, 3.0), update(3, f64::NAN), update(4, 5.0)];
        assert!(matches!(table.mutate(updates), Err(EngineError::Priority { key: 3, .. })));
        let priorities: BTreeMap<u64, f64> = listed(&table).into_iter().collect();
        let priorities: Vec<f64> = priorities.into_values().take(5).collect();
        assert_eq!(priorities, [1.0, 2.0, 3.0, 1.0, 1.0]);
    });
}

#[test]
fn min_size_applies_to_the_whole_sharded_table() {
    each(|config| {
        let (_engine, table) = engine(config.rate_limiter(min_size(5)));
        let mut writer = Writer::new(&table);
        writer.insert(0..4);
        let [mut first, mut second] = [0, 1].map(|_| table.sample(request(3)));
        assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
        let missing = Some(Shortfall::MinSize { size: 4, required: 5 });
        assert_eq!((table.sample_shortfall(), table.can_sample(1)), (missing, Ok(false)));
        let status = table.status();
        let observed: Vec<_> =
            status.waiters.iter().map(|w| (w.operation, w.shortfall.is_some(), w.wanted)).collect();
        assert_eq!(observed, [(Operation::Sample, true, 3), (Operation::Sample, false, 3)]);
        writer.insert([4]);
        let batches = [ready(&mut first), ready(&mut second)];
        assert!(batches.iter().flatten().all(|sampled| sampled.rate_limited && sampled.table_size == 5));
        assert_eq!((batches[0].len(), table.info().samples, table.status().waiters.len()), (3, 6, 0));
        assert!(sample(&table, 1).iter().all(|sampled| !sampled.rate_limited));
        assert_eq!(table.can_sample(0).unwrap_err().actual, 0);
    });
}

#[test]
fn sharded_waiters_are_served_in_order_and_withdrawn_ones_take_nothing() {
    each(|config| {
        let (_engine, table) = engine(config.max_times_sampled(1));
        let mut requests: Vec<_> = (0..4).map(|_| table.sample(request(2))).collect();
        assert!(requests.iter_mut().all(|request| poll(request).is_pending()));
        assert_eq!(requests.remove(1).withdraw().len(), 0);
        drop(requests.remove(1));
        let mut writer = Writer::new(&table);
        writer.insert([1]);
        assert_eq!(ready(&mut requests[0]).len(), 1, "a batch ends with what there is");
        assert!(poll(&mut requests[1]).is_pending());
        writer.insert([2, 3, 4]);
        assert_eq!(ready(&mut requests[1]).len(), if table.config().shards == 1 { 1 } else { 2 });
        let left = usize::try_from(table.info().current_size).unwrap();
        assert_eq!(sample(&table, 9).len(), left);
        assert_eq!((table.info().current_size, table.status().undelivered_samples), (0, 0));
    });
}

#[test]
fn samples_for_a_cancelled_sharded_request_are_counted() {
    each(|config| {
        let (_engine, table) = engine(config);
        let mut late = table.sample(request(1));
        assert!(poll(&mut late).is_pending());
        Writer::new(&table).insert([7]);
        drop(late);
        assert_eq!((table.status().undelivered_samples, table.info().samples), (1, 1));
        table.reset().unwrap();
        assert_eq!((table.status().undelivered_samples, table.info().samples), (0, 0));
    });
}

#[tokio::test(start_paused = true)]
async fn a_timed_out_shard_request_reports_the_missing_items() {
    for shards in [1, 3] {
        let (_engine, table) = engine(TableConfig::new("t").shards(shards).rate_limiter(min_size(2)));
        Writer::new(&table).insert([1]);
        let timeout = Some(Duration::from_secs(2));
        let error = table.sample(SampleRequest { timeout, ..request(1) }).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        let missing = "needs 1 more items in the table (has 1, min_size_to_sample is 2)";
        assert!(error.to_string().ends_with(missing), "{error}");
        Writer::new(&table).insert([2]);
        assert_eq!((table.info().samples, table.status().waiters.len()), (0, 0));
        let too_many = table.sample(request(usize::MAX)).await.unwrap_err();
        assert!(matches!(too_many, EngineError::SampleCount { .. }));
    }
}

#[test]
fn closing_ends_waiting_calls_and_refuses_new_ones() {
    each(|config| {
        let (_engine, table) = engine(config);
        let mut waiting = table.sample(request(1));
        assert!(poll(&mut waiting).is_pending());
        table.close();
        assert!(matches!(poll(&mut waiting), Poll::Ready(Err(EngineError::Closed { .. }))));
        let later = [
            insert(&table, [common::item(1)]).err(),
            insert(&table, (0..9).map(common::item)).err(),
            table.mutate([]).err(),
            table.reset().err(),
            match poll(&mut table.sample(request(1))) {
                Poll::Ready(result) => result.err(),
                Poll::Pending => None,
            },
        ];
        let is_closed = |error: &Option<EngineError>| matches!(error, Some(EngineError::Closed { .. }));
        assert!(later.iter().all(is_closed), "{later:?}");
    });
}

#[test]
fn a_reset_keeps_only_waiters_and_sequence_numbers() {
    each(|config| {
        let (_engine, table) = engine(config.rate_limiter(min_size(30)));
        let mut writer = Writer::new(&table);
        writer.insert(0..20);
        let first = table.items(0, 20).items[0].data.sequence;
        let mut waiting = table.sample(request(1));
        assert!(poll(&mut waiting).is_pending());
        table.reset().unwrap();
        let status = table.status();
        assert_eq!((status.info.current_size, status.info.inserts, status.info.num_episodes), (0, 0, 0));
        assert_eq!((status.bytes.chunks, status.referenced_bytes, status.waiters.len()), (0, 0, 1));
        writer.insert(0..30);
        assert_eq!(ready(&mut waiting).len(), 1);
        assert!(table.items(0, 1).items[0].data.sequence > first);
    });
}

/// Items of one episode and one chunk may be in different shards.
#[test]
fn shared_chunks_and_episodes_are_counted_once() {
    each(|config| {
        let (_engine, table) = engine(config);
        let shared = chunk(1, 77, 0, 4);
        let item = |key| NewItem {
            key,
            priority: 1.0,
            times_sampled: 0,
            trajectory: trajectory(&[Arc::clone(&shared), chunk(100 + key, 78, 0, 1)]),
        };
        insert(&table, (0..20).map(item)).unwrap();
        let status = table.status();
        assert_eq!((status.info.num_episodes, status.bytes.chunks), (2, 21));
        let sizes: u64 = 20 * chunk(100, 78, 0, 1).size_bytes() + shared.size_bytes();
        assert_eq!((status.bytes.encoded_bytes, status.bytes.shared_bytes), (sizes, 0));
        table.mutate((0..19).map(|key| Mutation::Delete { key })).unwrap();
        let info = table.info();
        assert_eq!((info.num_episodes, info.num_deleted_episodes), (2, 0));
        table.mutate([Mutation::Delete { key: 19 }]).unwrap();
        let status = table.status();
        assert_eq!((status.info.num_episodes, status.info.num_deleted_episodes), (0, 2));
        assert_eq!((status.bytes.chunks, status.bytes.encoded_bytes), (0, 0));
    });
}

#[test]
fn a_batch_stays_within_its_byte_limit() {
    each(|config| {
        let (_engine, table) = engine(config);
        insert(&table, (0..100).map(common::item)).unwrap();
        let size = table.status().bytes.encoded_bytes / 100;
        let small = SampleRequest { max_bytes: 10 * size, ..request(1_000) };
        let taken = ready(&mut table.sample(small)).len();
        assert!((9..=12).contains(&taken), "{taken}");
    });
}

#[test]
fn a_sharded_table_never_exceeds_its_size_and_fills_it_completely() {
    for shards in [1, 3, 7] {
        let (_engine, table) = engine(TableConfig::new("t").max_size(100).shards(shards));
        for key in 0..1_000 {
            insert(&table, [common::item(key)]).unwrap();
            assert!(table.info().current_size <= 100);
        }
        let info = table.info();
        assert_eq!((info.current_size, info.inserts, info.deletes), (100, 1_000, 900));
        // Each shard keeps its newest items, so the oldest item of the table is only slightly older than it would be
        // without shards.
        let oldest = listed(&table).iter().map(|(key, _)| *key).min().unwrap();
        assert!(oldest <= 900 && (shards == 1 || oldest > 700), "{oldest}");
    }
}

#[test]
fn extensions_of_other_tables_may_insert_into_shards() {
    let config = TableConfig::new("to").shards(4).rate_limiter(min_size(3));
    let engine = Engine::builder()
        .table_with_extensions(
            TableConfig::new("from").sampler(SelectorKind::Fifo).max_times_sampled(1),
            vec![Box::new(InsertOnFirstSample::new("to"))],
        )
        .table(config)
        .build()
        .unwrap();
    let [from, to] = ["from", "to"].map(|name| engine.table(name).unwrap().clone());
    let mut waiting = to.sample(request(2));
    assert!(poll(&mut waiting).is_pending());
    insert(&from, (0..3).map(common::item)).unwrap();
    assert_eq!(sample(&from, 3).len(), 3);
    assert_eq!((to.info().current_size, ready(&mut waiting).len()), (3, 2));
}

#[test]
fn unsupported_sharded_tables_are_refused_with_advice() {
    let config = TableConfig::new("t").shards(2);
    let extensions: Vec<Box<dyn relive_table::Extension>> = vec![Box::new(Statistics::default())];
    let error = Engine::builder().table_with_extensions(config, extensions).build().unwrap_err();
    assert_eq!(
        error.to_string(),
        "table \"t\" cannot have 2 shards: it has 1 extensions, which need all items in one place; omit them, or use shards = 1"
    );
    let fifo = TableConfig::new("t").sampler(SelectorKind::Fifo);
    let stored = Engine::builder().table(fifo).build().unwrap().snapshot();
    let given = Engine::builder().table(TableConfig::new("t").shards(2));
    let error = given.build_from(stored, Rules::Stored).unwrap_err().to_string();
    assert!(error.ends_with(
        "its sampler Fifo needs all items in one place; use Uniform or Prioritized, or use shards = 1"
    ));
    let none = Engine::builder().table(TableConfig::new("t").shards(0)).build().unwrap_err();
    assert_eq!(none.to_string(), "shards of table \"t\" must be from 1 to 64, got 0");
}

/// Returns the content of a table that a snapshot preserves.
fn content(engine: &Engine) -> impl PartialEq + std::fmt::Debug + use<> {
    let snapshot = engine.snapshot();
    let table = &snapshot.tables[0];
    let items: Vec<_> = table
        .items
        .iter()
        .map(|item| (item.data.key, item.data.sequence, item.priority.to_bits(), item.times_sampled))
        .collect();
    let status = engine.tables()[0].status();
    let bytes = (status.bytes.chunks, status.bytes.encoded_bytes);
    (table.counters, items, status.info.num_episodes, bytes)
}

#[test]
fn a_snapshot_fits_any_number_of_shards() {
    let config = |shards| TableConfig::new("t").sampler(PRIORITIZED).max_size(97).shards(shards);
    let (first, table) = engine(config(1));
    insert(&table, (0..130).map(|key| with_priority(key, key as f64))).unwrap();
    table.mutate([Mutation::Update { key: 100, priority: 0.0 }]).unwrap();
    sample(&table, 50);
    let expected = content(&first);
    let mut engine = first;
    for shards in [4, 1, 8, 3, 1] {
        let restored = Engine::builder().table(config(shards)).build_from(engine.snapshot(), Rules::Stored);
        let restored = restored.unwrap();
        assert_eq!(restored.differences, []);
        engine = restored.engine;
        let table = engine.table("t").unwrap();
        assert_eq!(table.config().shards, shards);
        // All 97 items stay, although their keys do not distribute them evenly over the shards.
        assert_eq!(content(&engine), expected, "{shards} shards");
    }
    let table = engine.table("t").unwrap();
    insert(&table, [common::item(1_000)]).unwrap();
    assert_eq!(listed(&table).last().unwrap().0, 1_000);
}

#[test]
fn a_smaller_sharded_table_evicts_by_its_removers() {
    let (full, table) = engine(TableConfig::new("t"));
    insert(&table, (0..100).map(common::item)).unwrap();
    let smaller = Engine::builder().table(TableConfig::new("t").max_size(10).shards(4));
    let restored = smaller.build_from(full.snapshot(), Rules::Given).unwrap().engine;
    let info = restored.table("t").unwrap().info();
    assert_eq!((info.current_size, info.inserts, info.deletes), (10, 100, 90));
}

/// The probability that the sum of squares exceeds the bound is one in a million, and the seed is fixed.
#[test]
fn items_are_sampled_by_weight_from_any_shard() {
    const ITEMS: u32 = 30;
    const BOUND: f64 = 82.0;
    for (sampler, shards) in [(SelectorKind::Uniform, 3), (PRIORITIZED, 3), (PRIORITIZED, 8)] {
        let (_engine, table) = engine(TableConfig::new("t").sampler(sampler).shards(shards));
        let weight = |key: u32| if sampler == SelectorKind::Uniform { 1.0 } else { f64::from(key % 7) };
        let items = (0..ITEMS).map(|key| with_priority(key.into(), f64::from(key % 7)));
        insert(&table, items).unwrap();
        let total: f64 = (0..ITEMS).map(weight).sum();
        let mut counts = [0_u32; ITEMS as usize];
        for _ in 0..200 {
            for sampled in sample(&table, 250) {
                let key = u32::try_from(sampled.item.key).unwrap();
                counts[key as usize] += 1;
                let expected = weight(key) / total;
                assert!((sampled.probability - expected).abs() < 1e-12, "{key}: {}", sampled.probability);
            }
        }
        let squares = (0..ITEMS).zip(counts).map(|(key, count)| {
            let expected = 50_000.0 * weight(key) / total;
            if expected == 0.0 {
                assert_eq!(count, 0);
                return 0.0;
            }
            (f64::from(count) - expected).powi(2) / expected
        });
        let chi_square: f64 = squares.sum();
        assert!(chi_square < BOUND, "{sampler} in {shards}: {chi_square}");
    }
}

/// Samples of a batch are not ordered by shard, so the first sample of each batch is also unbiased.
#[test]
fn the_first_sample_of_a_batch_is_unbiased() {
    let (_engine, table) = engine(TableConfig::new("t").shards(4));
    insert(&table, (0..10).map(common::item)).unwrap();
    let mut counts = [0_u32; 10];
    for _ in 0..10_000 {
        counts[usize::try_from(sample(&table, 8)[0].item.key).unwrap()] += 1;
    }
    // 1,000 each with a standard deviation of 30.
    assert!(counts.iter().all(|count| count.abs_diff(1_000) < 180), "{counts:?}");
}

#[test]
fn concurrent_sharded_access_neither_loses_nor_repeats_items() {
    const KEYS: u64 = 20_000;
    let config = TableConfig::new("t").shards(3).sampler(PRIORITIZED);
    let (engine, table) = engine(config.max_times_sampled(2).max_size(1_000_000));
    let is_done = AtomicBool::new(false);
    let (confirmed, samples) = std::thread::scope(|scope| {
        let write = |range: std::ops::Range<u64>| {
            let table = table.clone();
            let keys: Vec<u64> = range.collect();
            move || {
                let batches =
                    keys.chunks(100).map(|keys| insert(&table, keys.iter().map(|&k| common::item(k))));
                batches.flat_map(Result::unwrap).collect::<Vec<u64>>()
            }
        };
        let writers = [0..KEYS, KEYS..2 * KEYS].map(|range| scope.spawn(write(range)));
        let reader = scope.spawn(|| {
            let mut taken = Vec::new();
            while !is_done.load(Ordering::Relaxed) || table.info().current_size > 0 {
                if let Poll::Ready(batch) = poll(&mut table.sample(request(64))) {
                    taken.extend(batch.unwrap().iter().map(|sampled| sampled.item.key));
                }
            }
            taken
        });
        let snapshots = scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                let table = &engine.snapshot().tables[0];
                let size = table.counters.inserts - table.counters.deletes;
                assert_eq!(i64::try_from(table.items.len()).unwrap(), size);
                let keys: BTreeSet<u64> = table.items.iter().map(|item| item.data.key).collect();
                assert_eq!(keys.len(), table.items.len());
            }
        });
        let confirmed: Vec<u64> = writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect();
        is_done.store(true, Ordering::Relaxed);
        snapshots.join().unwrap();
        (confirmed, reader.join().unwrap())
    });
    assert_eq!(confirmed.len() as u64, 2 * KEYS);
    let mut times = vec![0_u8; usize::try_from(2 * KEYS).unwrap()];
    samples.iter().for_each(|&key| times[usize::try_from(key).unwrap()] += 1);
    assert!(times.iter().all(|times| *times <= 2), "each item leaves once it was sampled twice");
    // Samples of a request that was served at the moment when it was dropped are undelivered.
    let lost = 4 * KEYS - samples.len() as u64;
    assert_eq!(table.status().undelivered_samples, lost, "the others were sampled twice");
    let info = table.info();
    assert_eq!((info.current_size, info.deletes.unsigned_abs()), (0, 2 * KEYS));
    assert_eq!(table.status().bytes.chunks, 0);
}

#[test]
fn every_confirmed_item_is_stored_or_was_evicted() {
    const KEYS: u64 = 10_000;
    let (_engine, table) = engine(TableConfig::new("t").shards(4).max_size(5_000));
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let table = &table;
            scope.spawn(move || {
                for key in 0..KEYS {
                    insert(table, [common::item(writer * KEYS + key)]).unwrap();
                }
            });
        }
    });
    let info = table.info();
    assert_eq!((info.current_size, info.inserts, info.deletes), (5_000, 40_000, 35_000));
    let there = table.items(0, 100_000).items;
    let sequences: BTreeSet<u64> = there.iter().map(|item| item.data.sequence).collect();
    assert_eq!(sequences.len(), 5_000, "numbers are unique over all shards");
    // At least one writer's last item must exist, since its shard evicts the oldest items first.
    let last = |writer: u64| there.iter().any(|item| item.data.key == writer * KEYS + KEYS - 1);
    assert!((0..4).any(last));
}
