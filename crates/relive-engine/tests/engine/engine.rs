//! Tests tables by name, memory by account, and extensions across tables.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use crate::common::{self, Writer, item, request};
use relive_engine::limits::MAX_COPIED_BYTES;
use relive_engine::{
    BuildError, CopiedSamples, Engine, EngineBuilder, ErrorKind, Mutation, Rules, TableHandle,
};
use relive_table::{InsertOnFirstSample, RateLimiterConfig, SelectorKind, TableChange, TableConfig};
use relive_tensor::{ColumnLayout, DType, Nest, Shape, TensorSpec};

#[test]
fn names_must_be_present_and_unique() {
    assert!(matches!(Engine::builder().build(), Err(BuildError::NoTables)));
    let twice = Engine::builder().table(TableConfig::new("a")).table(TableConfig::new("a")).build();
    assert!(matches!(twice, Err(BuildError::DuplicateName { name }) if name == "a"));
    let engine = Engine::builder().table(TableConfig::new("a")).table(TableConfig::new("b")).build().unwrap();
    let error = engine.table("c").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(error.to_string(), "Priority table c was not found; this server has: a, b");
}

/// Returns the keys of 64 samples of a table with the items 1 to 20.
async fn drawn(engine: &Engine, name: &str) -> Vec<u64> {
    let table = engine.table(name).expect("the table is there");
    Writer::new(&table).insert(1..=20);
    let samples = table.sample(request(64)).await.expect("there are items");
    samples.iter().map(|sampled| sampled.item.key).collect()
}

#[tokio::test]
async fn the_same_seed_and_operations_give_the_same_samples() {
    let of = |own: Option<u64>, all: Option<u64>| async move {
        let mut first = TableConfig::new("a");
        first.seed = own;
        let builder = Engine::builder().table(first).table(TableConfig::new("b"));
        let engine = all.into_iter().fold(builder, EngineBuilder::seed).build().unwrap();
        (drawn(&engine, "a").await, drawn(&engine, "b").await)
    };
    assert_eq!(of(None, Some(1)).await, of(None, Some(1)).await);
    assert_eq!(of(Some(5), Some(1)).await.0, of(Some(5), Some(2)).await.0, "the table's own seed goes first");
    assert_eq!(of(Some(5), Some(1)).await.1, of(None, Some(1)).await.1, "and changes nothing about others");
    assert_ne!(of(Some(5), None).await.1, of(Some(5), None).await.1);
    let engine = Engine::builder().table(TableConfig::new("a")).build().unwrap();
    engine.add_table(TableConfig::new("c").seed(5), &Arc::from("test")).unwrap();
    assert_eq!(drawn(&engine, "c").await, of(Some(5), None).await.0);
}

#[test]
fn tables_that_can_never_be_sampled_require_opt_in() {
    let never = TableConfig::new("t").max_size(2).rate_limiter(RateLimiterConfig::min_size(3).unwrap());
    let refused = Engine::builder().table(never.clone()).build().unwrap_err();
    assert!(refused.to_string().contains("could never be sampled"), "{refused}");
    let wanted = never.clone().allow_never_sampled(true);
    let engine = Engine::builder().table(wanted.clone()).build().unwrap();
    let who = Arc::from("test");
    let added = TableConfig { name: "u".to_owned(), ..never };
    assert_eq!(engine.add_table(added, &who).unwrap_err().kind(), ErrorKind::InvalidArgument);
    // An existing table may be changed, but not so that it could never be sampled.
    engine.change_table("t", &TableChange::new().max_times_sampled(1), &who).unwrap();
    engine.add_table(TableConfig::new("v").max_size(5), &who).unwrap();
    let change = TableChange::new().rate_limiter(RateLimiterConfig::min_size(6).unwrap());
    assert_eq!(engine.change_table("v", &change, &who).unwrap_err().kind(), ErrorKind::InvalidArgument);
    // A checkpoint may contain such a table, regardless of the current configuration.
    let fine = TableConfig::new("t");
    let fine_too = TableConfig::new("v");
    let restored =
        Engine::builder().table(fine).table(fine_too).build_from(engine.snapshot(), Rules::Stored).unwrap();
    assert_eq!(restored.engine.table("t").unwrap().config().max_size, 2);
}

#[test]
fn referenced_bytes_follow_inserts_evictions_updates_and_resets() {
    let (_engine, table) = common::engine(TableConfig::new("t").max_size(3));
    let bytes = item(1).trajectory.encoded_size_bytes();
    let mut writer = Writer::new(&table);
    writer.insert(1..=2);
    writer.insert([1]);
    assert_eq!(table.status().referenced_bytes, 2 * bytes, "an update adds nothing");
    writer.insert(3..=9);
    assert_eq!(table.status().referenced_bytes, 3 * bytes, "evicted items are off the account");
    table.reset().unwrap();
    assert_eq!(table.status().referenced_bytes, 0);
}

/// Copies samples of items whose only value is the item's key; on failure, returns how many items were sampled without
/// copying.
#[cfg(test)]
mod rows {
    use super::*;

    pub(super) fn copy(table: &TableHandle, count: usize) -> Result<Vec<u64>, usize> {
        let layout = ColumnLayout { dtype: DType::UInt64, cell_shape: Shape::scalar(), rows: None };
        let mut bytes = vec![0; 8 * count];
        match table.sample_rows(&[layout].into(), count, &mut [&mut bytes]) {
            CopiedSamples::Items(items) => Err(items.len()),
            CopiedSamples::Rows(rows) => {
                let values = bytes.as_chunks().0.iter().map(|value| u64::from_le_bytes(*value));
                let values: Vec<u64> = values.collect();
                assert_eq!(values, rows.iter().map(|row| row.key).collect::<Vec<_>>());
                Ok(values)
            }
        }
    }
}

#[tokio::test]
async fn samples_are_copied_if_nobody_waits_and_nothing_prevents_it() {
    let lifo = |name: &str| TableConfig::new(name).sampler(SelectorKind::Lifo);
    let (_engine, table) = common::engine(lifo("t"));
    assert_eq!(rows::copy(&table, 1), Err(0), "there are no items");
    Writer::new(&table).insert(1..=9);
    assert_eq!(rows::copy(&table, 3), Ok(vec![9, 9, 9]));
    assert_eq!((table.info().samples, table.info().num_unique_samples), (3, 1));
    assert_eq!(rows::copy(&table, MAX_COPIED_BYTES / 8 + 1), Err(0), "that much is not copied under a lock");
    let (_engine, shards) = common::engine(TableConfig::new("t").shards(2));
    Writer::new(&shards).insert(1..=9);
    assert_eq!(rows::copy(&shards, 3), Err(0));
    table.close();
    assert_eq!(rows::copy(&table, 3), Err(0));
    assert_eq!(table.info().samples, 3);
}

#[tokio::test]
async fn waiting_samplers_are_served_before_samples_are_copied() {
    let (_engine, table) = common::min_size(2);
    let mut writer = Writer::new(&table);
    writer.insert([1]);
    let mut waiting = table.sample(request(2));
    assert!(Pin::new(&mut waiting).poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!(rows::copy(&table, 1), Err(0));
    writer.insert([2]);
    assert_eq!(waiting.await.unwrap().len(), 2);
    assert_eq!(rows::copy(&table, 2), Ok(vec![1, 1]));
    assert_eq!(table.info().samples, 4);
}

#[tokio::test]
async fn the_first_sample_of_an_item_copies_it_to_another_table() {
    let engine = Engine::builder()
        .table_with_extensions(TableConfig::new("from"), vec![Box::new(InsertOnFirstSample::new("to"))])
        .table(TableConfig::new("to"))
        .build()
        .unwrap();
    let from = engine.table("from").unwrap();
    Writer::new(&from).insert([5]);
    for _ in 0..3 {
        from.sample(request(1)).await.unwrap();
    }
    let to = engine.table("to").unwrap();
    assert_eq!((to.info().current_size, to.info().inserts), (1, 1));
    let copy = to.sample(request(1)).await.unwrap().remove(0);
    assert_eq!((copy.item.key, copy.times_sampled), (5, 2));
}

#[tokio::test]
async fn copies_in_another_table_keep_the_order_of_the_samples() {
    let engine = Engine::builder()
        .table_with_extensions(TableConfig::queue("from", 9), vec![Box::new(InsertOnFirstSample::new("to"))])
        .table(TableConfig::new("to"))
        .build()
        .unwrap();
    let from = engine.table("from").unwrap();
    Writer::new(&from).insert(1..=5);
    assert_eq!(from.sample(request(5)).await.unwrap().len(), 5);
    let copies = engine.table("to").unwrap().items(0, 9).items;
    assert_eq!(copies.iter().map(|item| item.data.key).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_writers_and_samplers_neither_lose_nor_duplicate_items() {
    const WRITERS: u64 = 4;
    const ITEMS: u64 = 2_000;
    let (_engine, table) = common::queue(16);
    let sum = Arc::new(AtomicU64::new(0));
    let writers = (0..WRITERS).map(|writer| {
        let table = table.clone();
        tokio::spawn(async move {
            let mut stream = Writer::new(&table);
            let mut outstanding = 0;
            for key in writer * ITEMS..(writer + 1) * ITEMS {
                outstanding += stream.insert([key]);
            }
            let mut confirmed = stream.confirmed.len();
            while outstanding > 0 {
                let mut outcomes = Vec::new();
                std::future::poll_fn(|cx| stream.confirmations.poll_settled(cx, &mut outcomes)).await;
                outstanding -= outcomes.len();
                confirmed += outcomes.into_iter().map(Result::unwrap).count();
            }
            assert_eq!(confirmed as u64, ITEMS);
        })
    });
    let writers: Vec<_> = writers.collect();
    let samplers: Vec<_> = (0..4)
        .map(|_| {
            let (table, sum) = (table.clone(), Arc::clone(&sum));
            tokio::spawn(async move {
                while let Ok(batch) = table.sample(request(7)).await {
                    for sampled in batch {
                        sum.fetch_add(sampled.item.key, Ordering::Relaxed);
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    while table.info().current_size > 0 {
        tokio::task::yield_now().await;
    }
    table.close();
    for sampler in samplers {
        sampler.await.unwrap();
    }
    let all = WRITERS * ITEMS;
    assert_eq!(sum.load(Ordering::Relaxed), all * (all - 1) / 2);
    assert_eq!(table.info().samples, i64::try_from(all).unwrap());
}

#[test]
fn a_table_keeps_the_first_proposed_structure() {
    let (_engine, table) = common::engine(TableConfig::new("t"));
    assert_eq!(table.columns(), None);
    let first = Nest::dict([("observation", ()), ("action", ())]);
    let other = Nest::dict([("observation", ()), ("reward", ())]);
    assert!(table.name_columns(first.clone()).unwrap());
    assert!(table.name_columns(first.clone()).unwrap(), "the same one again is the one that is kept");
    assert!(
        !table.name_columns(Nest::dict([("observation", ())])).unwrap(),
        "items of fewer columns are another matter"
    );
    table.reset().unwrap();
    assert_eq!(table.columns().as_deref(), Some(&first));
    assert_eq!(table.status().columns.as_deref(), Some(&first));
    assert!(!table.name_columns(other).unwrap());
    assert!(!table.name_columns(first).unwrap(), "nobody knows whose names an item has");
    assert_eq!(table.columns(), None);
}

#[test]
fn a_writer_that_adopts_the_agreed_columns_causes_no_dispute() {
    for shards in [1, 3] {
        let (engine, table) = common::engine(TableConfig::new("t").shards(shards));
        let first = Nest::dict([("a", ()), ("b", ())]);
        let agreed = table.agree_on_columns(first.clone()).unwrap();
        assert!(agreed.fits(&first) && !agreed.is_signature);
        let other = Nest::dict([("x", ()), ("y", ())]);
        assert_eq!(table.agree_on_columns(other.clone()).unwrap(), agreed);
        assert_eq!(table.columns().as_deref(), Some(&first));
        assert!(!table.name_columns(other.clone()).unwrap());
        let disputed = table.agree_on_columns(first.clone()).unwrap();
        assert_eq!(disputed.disputed_by.as_deref(), Some(&other));
        assert_eq!((table.columns(), table.structure()), (None, Some(Arc::clone(&disputed))));

        let builder = Engine::builder().table(TableConfig::new("t").shards(shards));
        let restored = builder.build_from(engine.snapshot(), Rules::Stored).unwrap().engine;
        assert_eq!(restored.table("t").unwrap().structure(), Some(disputed));
        let spec = TensorSpec { name: String::new(), shape: None, dtype: DType::Int32, bounds: None };
        let signed = TableConfig::new("t").shards(shards).signature(Nest::dict([("p", spec)]));
        let restored = Engine::builder().table(signed).build_from(engine.snapshot(), Rules::Given).unwrap();
        assert!(restored.engine.table("t").unwrap().structure().unwrap().is_signature);
    }
}

#[test]
fn a_signature_overrides_the_column_names_of_writers() {
    let spec = TensorSpec { name: String::new(), shape: None, dtype: DType::Int32, bounds: None };
    let signature = Nest::dict([("a", spec.clone()), ("b", spec)]);
    let (_engine, table) = common::engine(TableConfig::new("t").signature(signature));
    let named = Nest::dict([("a", ()), ("b", ())]);
    assert_eq!(table.columns().as_deref(), Some(&named));
    assert!(!table.name_columns(Nest::dict([("x", ())])).unwrap());
    assert!(table.name_columns(named.clone()).unwrap());
    assert_eq!(table.columns().as_deref(), Some(&named));
}

#[test]
fn a_signature_without_leaves_names_nothing() {
    let (_engine, table) = common::engine(TableConfig::new("t").signature(Nest::Tuple(Vec::new())));
    assert_eq!(table.columns(), None);
    assert!(table.name_columns(Nest::Leaf(())).unwrap());
}

#[test]
fn a_refused_structure_is_not_kept() {
    let (_engine, table) = common::engine(TableConfig::new("t"));
    let error = table.name_columns(Nest::None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(
        error.to_string(),
        "table `t` cannot name its columns after this structure: it has no columns"
    );
    assert!(table.name_columns(Nest::Leaf(())).unwrap());
}

/// Pages are in insertion order even though later items reuse the slots of removed ones.
#[test]
fn pages_follow_insertion_order_despite_reused_slots() {
    for shards in [1, 3] {
        let (_engine, table) = common::engine(TableConfig::new("t").shards(shards));
        let mut writer = Writer::new(&table);
        writer.insert(0..9_000);
        table.mutate((0..3_000).map(|key| Mutation::Delete { key: key * 3 })).unwrap();
        writer.insert(10_000..12_000);
        let all = table.items(0, 100_000);
        assert_eq!((all.items.len(), all.next), (8_000, None));
        let sequences: Vec<u64> = all.items.iter().map(|item| item.data.sequence).collect();
        let (mut from, mut listed) = (0, Vec::new());
        loop {
            let page = table.items(from, 7);
            let there = page.items.iter().map(|item| item.data.sequence);
            let expected = sequences.iter().copied().filter(|&sequence| sequence >= from).take(7);
            assert!(there.clone().eq(expected), "from {from}");
            listed.extend(there);
            // Most pages in the middle are alike, so they are skipped.
            match page.next {
                Some(next) if from < 200 => from = next,
                Some(next) if from < 7_500 => from = next.max(7_500),
                _ => break,
            }
        }
        assert!(listed.len() > 100 && listed.is_sorted());
    }
}

/// Mutation callbacks run outside the table's lock, so that they may also access the table.
#[test]
fn mutation_callbacks_run_outside_the_table_lock() {
    for shards in [1, 3] {
        let (_engine, table) = common::engine(TableConfig::new("t").shards(shards));
        let mut writer = Writer::new(&table);
        writer.insert(0..3_000);
        let (done, is_done) = std::sync::mpsc::channel();
        let own = table.clone();
        std::thread::spawn(move || {
            let looking = (0..3_000).map(|key| {
                assert_eq!(own.info().inserts, 3_000);
                Mutation::Update { key, priority: 2.0 }
            });
            done.send(own.mutate(looking)).unwrap();
        });
        is_done.recv_timeout(Duration::from_secs(60)).expect("it waits for its own lock").unwrap();
        assert!(table.items(0, 3_000).items.iter().all(|item| item.priority == 2.0));
    }
}
