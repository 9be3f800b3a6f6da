//! Tests changes that operators make while a table is in use.

#![expect(clippy::unwrap_used, reason = "a refusal where none is due ends the test")]

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::common::{Writer, request};
use relive_engine::{Engine, EngineError, ErrorKind, SampleFuture};
use relive_table::{RateLimiterConfig, Sampled, Shortfall, TableChange, TableConfig};

fn poll(future: &mut SampleFuture) -> Poll<Result<Vec<Sampled>, EngineError>> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn me() -> Arc<str> {
    Arc::from("operator")
}

fn engine() -> Engine {
    let queue = TableConfig::queue("queue", 2);
    Engine::builder().table(queue).table(TableConfig::new("replay").max_size(10_000)).build().unwrap()
}

#[test]
fn a_change_is_logged_with_the_old_value() {
    let engine = engine();
    let change = TableChange::new().max_size(9).max_bytes(1_000).pause_samples(true);
    let changed = engine.change_table("replay", &change, &me()).unwrap();
    let actual: Vec<_> =
        changed.changes.iter().map(|it| (it.what.as_str(), it.old.as_str(), it.new.as_str())).collect();
    let expected =
        [("max_size", "10000", "9"), ("max_bytes", "none", "1000"), ("samples", "running", "paused")];
    assert_eq!(actual, expected);
    assert!(changed.changes.iter().all(|it| it.who == "operator" && it.table == "replay"));
    let again = engine.change_table("replay", &change, &me()).unwrap();
    assert_eq!(again.changes, [], "nothing is other than before");
    assert_eq!(engine.changes(), changed.changes);
    let status = engine.table("replay").unwrap().status();
    assert_eq!((status.info.config.max_size, status.paused.samples), (9, true));
}

#[test]
fn rules_out_of_range_change_nothing() {
    let engine = engine();
    let before = engine.table("replay").unwrap().config();
    for change in [
        TableChange::new().max_size(0).max_times_sampled(7),
        TableChange { min_diff: Some(2.0), max_diff: Some(1.0), ..TableChange::new().max_size(5) },
        TableChange::new().max_bytes(0),
    ] {
        let error = engine.change_table("replay", &change, &me()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
    assert_eq!(engine.table("replay").unwrap().config(), before);
    assert_eq!(engine.changes(), []);
    let unknown = engine.change_table("none", &TableChange::new(), &me()).unwrap_err();
    assert_eq!(unknown.to_string(), "Priority table none was not found; this server has: queue, replay");
}

#[test]
fn reducing_the_size_evicts_items_by_the_remover() {
    let engine = engine();
    let table = engine.table("replay").unwrap();
    Writer::new(&table).insert(0..5_000);
    let changed = engine.change_table("replay", &TableChange::new().max_size(3), &me()).unwrap();
    assert_eq!(changed.evicted, 4_997);
    let status = table.status();
    assert_eq!((status.info.current_size, status.info.deletes), (3, 4_997));
    assert_eq!(status.bytes.chunks, 3, "what left is freed");
    Writer::new(&table).insert([9_000]);
    assert_eq!(table.info().current_size, 3);
}

#[test]
fn wider_bounds_unblock_inserts() {
    let engine = engine();
    let table = engine.table("queue").unwrap();
    let mut writer = Writer::new(&table);
    assert_eq!(writer.insert(0..4), 2, "two of them wait");
    engine.change_table("queue", &TableChange { max_diff: Some(3.0), ..TableChange::new() }, &me()).unwrap();
    assert_eq!(table.status().waiters.len(), 1);
    engine
        .change_table("queue", &TableChange::new().rate_limiter(RateLimiterConfig::queue(9)), &me())
        .unwrap();
    assert_eq!(table.status().waiters.len(), 0);
    let info = table.info();
    assert_eq!((info.current_size, info.inserts), (2, 4), "max_size still holds");
}

#[test]
fn paused_operations_wait_and_resume() {
    let engine = engine();
    let table = engine.table("replay").unwrap();
    let pause = |inserts, samples| {
        let change = TableChange::new().pause_inserts(inserts).pause_samples(samples);
        engine.change_table("replay", &change, &me()).unwrap();
    };
    Writer::new(&table).insert([1]);
    pause(true, true);
    let mut sample = table.sample(request(1));
    assert!(poll(&mut sample).is_pending());
    assert_eq!(Writer::new(&table).insert([2]), 1);
    let waits: Vec<_> = table.status().waiters.into_iter().map(|waiter| waiter.shortfall).collect();
    let paused = |what| Some(Shortfall::Paused { what });
    assert_eq!(waits, [paused("inserts"), paused("samples")]);
    pause(false, true);
    assert_eq!(table.info().current_size, 2, "the insert went on by itself");
    assert!(poll(&mut sample).is_pending());
    pause(false, false);
    let Poll::Ready(Ok(samples)) = poll(&mut sample) else { panic!("samples go on") };
    assert_eq!(samples.len(), 1);
}

#[test]
fn tables_can_be_added_and_dropped() {
    let engine = engine();
    let version = engine.tables_version();
    engine.add_table(TableConfig::new("new").max_size(5), &me()).unwrap();
    let table = engine.table("new").unwrap();
    Writer::new(&table).insert(0..3);
    let names: Vec<_> = engine.tables().iter().map(|table| table.name().to_owned()).collect();
    assert_eq!(names, ["queue", "replay", "new"]);
    assert_eq!(engine.snapshot().tables.len(), 3);
    let twice = engine.add_table(TableConfig::new("new"), &me()).unwrap_err();
    assert!(matches!(twice, EngineError::TableExists { .. }), "{twice}");
    let mut sample = engine.table("queue").unwrap().sample(request(1));
    assert!(poll(&mut sample).is_pending());
    engine.drop_table("new", &me()).unwrap();
    engine.drop_table("queue", &me()).unwrap();
    let Poll::Ready(Err(error)) = poll(&mut sample) else { panic!("nobody will serve it") };
    assert_eq!(error.to_string(), "table `queue` was dropped by an operator");
    assert_eq!(table.status().bytes.chunks, 0, "its items are gone while handles live on");
    assert_eq!(table.reset().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(engine.drop_table("replay", &me()).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(engine.tables_version(), version + 3);
    let text: Vec<_> =
        engine.changes().iter().map(|it| format!("{} {} {}", it.table, it.old, it.new)).collect();
    assert_eq!(text, ["new none at most 5 items", "new 3 items none", "queue 0 items none"]);
}

#[test]
fn a_closed_engine_accepts_no_new_tables() {
    let engine = engine();
    engine.close();
    let refused = engine.add_table(TableConfig::new("new"), &me()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Cancelled);
    let change = engine.change_table("replay", &TableChange::new().max_size(5), &me()).unwrap_err();
    assert_eq!(change.kind(), ErrorKind::Cancelled);
}

#[test]
fn a_reset_is_logged() {
    let engine = engine();
    Writer::new(&engine.table("replay").unwrap()).insert(0..4);
    engine.reset_table("replay", &me()).unwrap();
    let actual = engine.changes().pop().unwrap();
    assert_eq!((&*actual.what, &*actual.old, &*actual.new), ("items", "4 items", "0 items"));
}

#[test]
fn the_oldest_changes_are_forgotten() {
    let engine = engine();
    for size in 1..=150 {
        engine.change_table("replay", &TableChange::new().max_size(size), &me()).unwrap();
    }
    let changes = engine.changes();
    assert_eq!((changes.len(), &*changes[0].new, &*changes[99].new), (100, "51", "150"));
}

#[test]
fn a_peek_sees_all_of_a_small_table_and_some_of_a_large_one() {
    let engine = engine();
    let table = engine.table("replay").unwrap();
    Writer::new(&table).insert(0..300);
    let all = table.peek(1_000);
    assert_eq!(all.len(), 300);
    assert!(all.iter().all(|item| item.priority == 1.0 && item.times_sampled == 0));
    Writer::new(&table).insert(300..9_000);
    let some = table.peek(1_000);
    assert!((900..=1_100).contains(&some.len()), "{}", some.len());
    let mut times: Vec<_> = some.iter().map(|item| item.inserted_at).collect();
    times.sort_unstable();
    assert!(times.first() < times.last(), "they are from all over the table");
}

#[test]
fn a_sharded_table_can_be_added_and_dropped() {
    let engine = engine();
    engine.add_table(TableConfig::new("wide").shards(4), &me()).unwrap();
    let table = engine.table("wide").unwrap();
    Writer::new(&table).insert(0..1_000);
    assert_eq!((table.info().current_size, table.peek(5_000).len()), (1_000, 1_000));
    assert!(!table.peek(3).is_empty(), "fewer items than shards");
    let refused = engine.change_table("wide", &TableChange::new().max_size(50), &me()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert!(refused.to_string().starts_with("table `wide` has 4 shards, and the rules"), "{refused}");
    engine.reset_table("wide", &me()).unwrap();
    assert_eq!(table.info().current_size, 0);
    Writer::new(&table).insert(0..10);
    engine.drop_table("wide", &me()).unwrap();
    assert_eq!(engine.changes().pop().unwrap().old, "10 items");
    let mut sample = table.sample(request(1));
    let Poll::Ready(Err(gone)) = poll(&mut sample) else { panic!("nobody will serve it") };
    assert_eq!((gone.kind(), table.status().bytes.chunks), (ErrorKind::NotFound, 0));
}
