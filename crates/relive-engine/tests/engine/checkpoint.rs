//! Tests snapshots of engines, engines that are built from snapshots, and the checkpointer.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Waker};

use crate::common::{Writer, request};
use relive_engine::{BuildError, Engine, EngineBuilder, EngineError, ErrorKind, Rules};
use relive_table::{CheckpointProgress, SavedCheckpoint, SelectorKind, Snapshot, TableConfig};
use relive_tensor::{DType, Nest, TensorSpec};

fn fifo(name: &str) -> TableConfig {
    TableConfig::new(name).sampler(SelectorKind::Fifo)
}

fn builder(tables: &[TableConfig]) -> EngineBuilder {
    tables.iter().cloned().fold(Engine::builder().seed(3), EngineBuilder::table)
}

fn write(engine: &Engine, table: &str, keys: impl IntoIterator<Item = u64>) -> usize {
    Writer::new(&engine.table(table).expect("tests name tables that are there")).insert(keys)
}

/// Samples this many items, which the limiter must allow.
fn sample(engine: &Engine, table: &str, count: usize) -> Vec<u64> {
    let future = engine.table(table).expect("tests name tables that are there").sample(request(count));
    let polled = std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop()));
    let Poll::Ready(samples) = polled else { panic!("the limiter of {table} forbids it") };
    samples.expect("the table is open").iter().map(|sample| sample.item.key).collect()
}

fn keys(snapshot: &Snapshot, table: &str) -> Vec<u64> {
    snapshot
        .table(table)
        .expect("tests name tables that are there")
        .items
        .iter()
        .map(|item| item.data.key)
        .collect()
}

#[test]
fn an_engine_restored_from_a_snapshot_continues_where_it_stopped() {
    let tables = [fifo("a").max_times_sampled(1), TableConfig::queue("b", 3), fifo("c")];
    let engine = builder(&tables).build().unwrap();
    write(&engine, "a", [5, 3, 4]);
    assert_eq!(write(&engine, "b", 0..5), 2, "two inserts wait");
    assert_eq!(sample(&engine, "a", 1), [5]);
    let snapshot = engine.snapshot();
    assert_eq!((keys(&snapshot, "a"), keys(&snapshot, "b")), (vec![3, 4], vec![0, 1, 2]));
    let restored = builder(&tables).build_from(snapshot, Rules::Stored).unwrap();
    assert_eq!(restored.differences, []);
    let again = restored.engine;
    for (old, new) in engine.tables().iter().zip(again.tables().iter()) {
        let describe = |table: &relive_engine::TableHandle| {
            let status = table.status();
            let info = status.info;
            let counters = (info.current_size, info.inserts, info.samples, info.deletes, info.num_episodes);
            (info.config, counters, status.referenced_bytes, status.limiter_cursor)
        };
        assert_eq!(describe(new), describe(old));
    }
    assert_eq!(write(&again, "b", [9]), 1, "the queue is full, as it was");
    assert_eq!((sample(&again, "a", 2), sample(&again, "b", 3)), (vec![3, 4], vec![0, 1, 2]));
}

#[test]
fn a_restored_engine_uses_the_ledger_of_its_snapshot() {
    let engine = builder(&[fifo("a")]).build().unwrap();
    let snapshot = engine.snapshot();
    let ledger = Arc::clone(&snapshot.ledger);
    let again = builder(&[fifo("a")]).build_from(snapshot, Rules::Stored).unwrap().engine;
    assert!(Arc::ptr_eq(again.ledger(), &ledger));
}

#[test]
fn stored_or_given_rules_apply_and_differences_are_reported() {
    let engine = builder(&[fifo("a").max_size(10)]).build().unwrap();
    write(&engine, "a", 0..5);
    let smaller = [fifo("a").max_size(2)];
    for (rules, size, max_size) in [(Rules::Stored, 5, 10), (Rules::Given, 2, 2)] {
        let restored = builder(&smaller).build_from(engine.snapshot(), rules).unwrap();
        let status = restored.engine.table("a").unwrap().status();
        assert_eq!((status.info.current_size, status.info.config.max_size), (size, max_size));
        let each = engine.table("a").unwrap().status().referenced_bytes / 5;
        assert_eq!(status.referenced_bytes, each * size);
        let actual: Vec<_> = restored.differences.iter().map(ToString::to_string).collect();
        assert_eq!(actual, ["table a: max_size is 10 in the checkpoint and 2 in the configuration"]);
    }
}

#[test]
fn a_configuration_may_leave_the_stored_signature_open() {
    let spec = TensorSpec::new("", DType::UInt64, None);
    let engine = builder(&[fifo("a").signature(Nest::List(vec![Nest::Leaf(spec)]))]).build().unwrap();
    for (rules, differences) in [(Rules::Stored, 0), (Rules::Given, 1)] {
        let restored = builder(&[fifo("a")]).build_from(engine.snapshot(), rules).unwrap();
        let config = restored.engine.table("a").unwrap().status().info.config;
        assert_eq!((restored.differences.len(), config.signature.is_none()), (differences, differences == 1));
    }
}

#[test]
fn a_format_without_the_selector_keeps_the_configured_one() {
    let engine = builder(&[fifo("a").sampler(SelectorKind::Uniform)]).build().unwrap();
    let given =
        [fifo("a").sampler(SelectorKind::WithoutReplacement).remover(SelectorKind::WithoutReplacement)];
    for (lacks_own_rules, sampler, differences) in
        [(true, SelectorKind::WithoutReplacement, 1), (false, SelectorKind::Uniform, 2)]
    {
        let snapshot = Snapshot { lacks_own_rules, ..engine.snapshot() };
        let restored = builder(&given).build_from(snapshot, Rules::Stored).unwrap();
        let config = restored.engine.table("a").unwrap().config().clone();
        assert_eq!((config.sampler, config.remover), (sampler, SelectorKind::Fifo));
        assert_eq!(restored.differences.len(), differences, "the remover is always another one");
    }
}

#[test]
fn items_that_a_smaller_limit_had_not_evicted_yet_are_evicted() {
    let engine = builder(&[fifo("a")]).build().unwrap();
    write(&engine, "a", 0..5);
    let mut snapshot = engine.snapshot();
    Arc::make_mut(&mut snapshot.tables[0].config).max_size = 2;
    let restored = builder(&[fifo("a")]).build_from(snapshot, Rules::Stored).unwrap().engine;
    let info = restored.table("a").unwrap().info();
    assert_eq!((info.current_size, info.config.max_size, info.inserts, info.deletes), (2, 2, 5, 3));
}

#[test]
fn snapshots_that_do_not_fit_are_refused() {
    let engine = builder(&[fifo("a"), fifo("b")]).build().unwrap();
    write(&engine, "a", 0..3);
    let refusal = |tables: &[TableConfig], snapshot| -> BuildError {
        builder(tables).build_from(snapshot, Rules::Stored).map(drop).unwrap_err()
    };
    let unknown = refusal(&[fifo("b"), fifo("c")], engine.snapshot());
    let expected = "the checkpoint has a table `a`, which is not configured; the configured tables are: b, c";
    assert_eq!(unknown.to_string(), expected);
    let mut twice = engine.snapshot();
    twice.tables.push(twice.tables[0].clone());
    assert!(refusal(&[fifo("a"), fifo("b")], twice).to_string().contains("two tables are named `a`"));
}

#[test]
fn a_snapshot_is_consistent_across_tables() {
    let engine = builder(&[fifo("second"), fifo("first"), fifo("third")]).build().unwrap();
    let done = AtomicBool::new(false);
    let start = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            start.wait();
            for key in 0..20_000 {
                ["first", "second", "third"]
                    .into_iter()
                    .for_each(|table| assert_eq!(write(&engine, table, [key]), 0));
            }
            done.store(true, Ordering::Relaxed);
        });
        start.wait();
        while !done.load(Ordering::Relaxed) {
            let sizes = engine.snapshot().tables.iter().map(|table| table.items.len()).collect::<Vec<_>>();
            let [second, first, third] = sizes[..] else { panic!("three tables") };
            assert!(first >= second && second >= third && first <= third + 1, "{sizes:?}");
        }
    });
}

fn saved(location: &str) -> SavedCheckpoint {
    SavedCheckpoint { location: location.to_owned(), written_bytes: 0, total_bytes: 0 }
}

#[test]
fn the_checkpointer_receives_a_snapshot_and_returns_a_path() {
    let save = |snapshot: Snapshot, _: &CheckpointProgress| {
        Ok(saved(&format!("{} items", snapshot.tables[0].items.len())))
    };
    let engine = builder(&[fifo("a")]).checkpointer(save).build().unwrap();
    write(&engine, "a", 0..4);
    engine.close();
    assert_eq!(engine.checkpoint().unwrap().location, "4 items");
}

#[test]
fn a_missing_checkpointer_and_a_failure_are_errors() {
    let error = builder(&[fifo("a")]).build().unwrap().checkpoint().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().starts_with("no checkpointer is configured"), "{error}");
    let full = |_: Snapshot, _: &CheckpointProgress| {
        Err(EngineError::checkpoint(std::io::Error::other("disk full")))
    };
    let error = builder(&[fifo("a")]).checkpointer(full).build().unwrap().checkpoint().unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (ErrorKind::Internal, "the checkpoint was not written: disk full")
    );
}

#[test]
fn two_checkpoints_are_never_written_at_once() {
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let save = {
        let (running, most) = (Arc::clone(&running), Arc::clone(&most));
        move |_: Snapshot, _: &CheckpointProgress| {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::yield_now();
            running.fetch_sub(1, Ordering::SeqCst);
            Ok(saved(""))
        }
    };
    let engine = builder(&[fifo("a")]).checkpointer(save).build().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..200).for_each(|_| drop(engine.checkpoint().unwrap())));
        }
    });
    assert_eq!(most.load(Ordering::SeqCst), 1);
}
