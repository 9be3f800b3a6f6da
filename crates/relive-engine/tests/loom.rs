//! Checks every interleaving of waiting, serving, abandoning and closing. Run with `RUSTFLAGS="--cfg relive_loom"`.
#![cfg(relive_loom)]

#[allow(
    unreachable_pub,
    dead_code,
    clippy::unwrap_used,
    reason = "shared by the test binaries, each of which uses a part"
)]
#[path = "engine/common/mod.rs"]
mod common;

use std::task::{Context, Waker};

use common::{Writer, queue, request};
use loom::future::block_on;
use loom::thread;
use relive_engine::Engine;
use relive_table::{SavedCheckpoint, TableConfig};

#[test]
fn a_waiting_sampler_is_always_woken() {
    loom::model(|| {
        let (_engine, table) = queue(1);
        let sampler = thread::spawn({
            let table = table.clone();
            move || block_on(table.sample(request(1))).unwrap()[0].item.key
        });
        Writer::new(&table).insert([4]);
        assert_eq!(sampler.join().unwrap(), 4);
        assert_eq!(table.info().samples, 1);
    });
}

#[test]
fn one_of_two_samplers_gets_the_only_item() {
    loom::model(|| {
        let (_engine, table) = queue(2);
        let sampler = thread::spawn({
            let table = table.clone();
            move || block_on(table.sample(request(1))).map(|batch| batch.len()).unwrap_or(0)
        });
        let mut impatient = Box::pin(table.sample(request(1)));
        let polled = impatient.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        drop(impatient);
        let mut writer = Writer::new(&table);
        writer.insert([1]);
        let taken_here = usize::from(polled.is_ready());
        if taken_here == 1 {
            writer.insert([2]);
        }
        assert_eq!(sampler.join().unwrap(), 1);
        assert_eq!(table.status().undelivered_samples, 0);
    });
}

#[test]
fn giving_up_while_being_served_loses_no_samples() {
    loom::model(|| {
        let (_engine, table) = queue(1);
        let mut future = table.sample(request(1));
        assert!(std::pin::Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let writer = thread::spawn({
            let table = table.clone();
            move || Writer::new(&table).insert([1])
        });
        drop(future);
        writer.join().unwrap();
        let (info, undelivered) = (table.info(), table.status().undelivered_samples);
        // Either the request was withdrawn first and the item exists, or the request was served and its sample counts
        // as undelivered.
        assert_eq!((info.current_size, info.samples as u64), (1 - undelivered, undelivered));
    });
}

#[test]
fn a_blocked_insert_is_settled_exactly_once_by_a_sample_or_by_closing() {
    loom::model(|| {
        let (_engine, table) = queue(1);
        let mut writer = Writer::new(&table);
        assert_eq!(writer.insert([1, 2]), 1);
        let closer = thread::spawn({
            let table = table.clone();
            move || table.close()
        });
        let sampled = block_on(table.sample(request(1))).is_ok();
        closer.join().unwrap();
        let outcomes = writer.settled();
        assert_eq!(outcomes.len(), 1);
        assert_eq!(outcomes[0].is_ok(), sampled, "confirmed if and only if it went in");
        assert_eq!(table.info().inserts, 1 + i64::from(sampled));
    });
}

#[test]
fn a_stream_that_waits_for_a_confirmation_is_woken() {
    loom::model(|| {
        let (_engine, table) = queue(1);
        let mut writer = Writer::new(&table);
        assert_eq!(writer.insert([1, 2]), 1);
        let sampler = thread::spawn({
            let table = table.clone();
            move || block_on(table.sample(request(1))).unwrap().len()
        });
        let mut outcomes = Vec::new();
        block_on(std::future::poll_fn(|cx| writer.confirmations.poll_settled(cx, &mut outcomes)));
        assert_eq!(outcomes.pop().unwrap().unwrap(), 2);
        assert_eq!(sampler.join().unwrap(), 1);
    });
}

/// Each caller's checkpoint contains the items that the caller had written, whichever callers share a checkpoint, and
/// no caller waits indefinitely.
#[test]
fn a_checkpoint_contains_everything_written_before_the_request() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let save = |snapshot: relive_table::Snapshot, _: &relive_table::CheckpointProgress| {
            let location = snapshot.tables[0].items.len().to_string();
            Ok(SavedCheckpoint { location, written_bytes: 0, total_bytes: 0 })
        };
        let engine =
            Engine::builder().table(TableConfig::new("t")).seed(7).checkpointer(save).build().unwrap();
        let other = thread::spawn({
            let engine = engine.clone();
            move || asked_after_a_write(&engine, 1)
        });
        let items = [asked_after_a_write(&engine, 2), other.join().unwrap()];
        assert!(items.contains(&2), "the later one has both: {items:?}");
        assert!(engine.checkpoint_status().running.is_none() && !engine.checkpoint_status().queued);
    });
}

fn asked_after_a_write(engine: &Engine, key: u64) -> usize {
    let table = engine.table("t").unwrap();
    Writer::new(&table).insert([key]);
    let there = usize::try_from(table.info().current_size).unwrap();
    let saved = block_on(engine.request_checkpoint().unwrap()).unwrap();
    let items = saved.location.parse().unwrap();
    assert!(items >= there, "{items} items, {there} were there");
    items
}

/// Returns a table in two shards that can be sampled once it has two items.
fn shards() -> (Engine, relive_engine::TableHandle) {
    let limiter = relive_table::RateLimiterConfig::min_size(2).unwrap();
    common::engine(TableConfig::new("t").shards(2).rate_limiter(limiter))
}

/// Two keys that are in different shards if there are two shards.
const APART: [u64; 2] = [1, 2];

fn bounded(test: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(test);
}

/// A writer sees that the table is large enough only if it also sees the other writer's insert.
#[test]
fn a_sampler_of_shards_is_woken_by_the_last_of_two_writers() {
    bounded(|| {
        let (_engine, table) = shards();
        let mut waiting = Box::pin(table.sample(request(1)));
        assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let other = thread::spawn({
            let table = table.clone();
            move || Writer::new(&table).insert([APART[0]])
        });
        Writer::new(&table).insert([APART[1]]);
        other.join().unwrap();
        assert_eq!(block_on(waiting).unwrap().len(), 1);
        assert_eq!((table.info().samples, table.status().waiters.len()), (1, 0));
    });
}

/// The sampler begins to wait while the items are inserted, one into each shard.
#[test]
fn a_sampler_that_starts_during_shard_inserts_is_woken() {
    bounded(|| {
        let (_engine, table) = shards();
        let sampler = thread::spawn({
            let table = table.clone();
            move || block_on(table.sample(request(1))).unwrap().len()
        });
        Writer::new(&table).insert(APART);
        assert_eq!(sampler.join().unwrap(), 1);
        assert_eq!((table.info().samples, table.status().waiters.len()), (1, 0));
    });
}

#[test]
fn giving_up_on_shards_while_being_served_loses_no_samples() {
    bounded(|| {
        let (_engine, table) = shards();
        Writer::new(&table).insert([APART[0]]);
        let mut future = table.sample(request(1));
        assert!(std::pin::Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let writer = thread::spawn({
            let table = table.clone();
            move || Writer::new(&table).insert([APART[1]])
        });
        drop(future);
        writer.join().unwrap();
        let status = table.status();
        assert_eq!(status.info.samples.unsigned_abs(), status.undelivered_samples);
        assert_eq!((status.info.current_size, status.waiters.len()), (2, 0));
    });
}

#[test]
fn closing_shards_ends_every_wait() {
    bounded(|| {
        let (_engine, table) = shards();
        let sampler = thread::spawn({
            let table = table.clone();
            move || block_on(table.sample(request(1))).map(|batch| batch.len())
        });
        let mut writer = Writer::new(&table);
        writer.insert([APART[0]]);
        table.close();
        assert!(sampler.join().unwrap().is_err(), "one item is too few");
        assert_eq!(table.status().waiters.len(), 0);
    });
}
