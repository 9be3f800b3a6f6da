//! Tests that writers wait when the bound on memory is reached, and eventually receive an error.
#![expect(clippy::unwrap_used, reason = "a refusal where none is due ends the test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::common::Writer;
use relive_engine::{
    BuildError, Engine, EngineBuilder, EngineError, ErrorKind, MemoryGate, Mutation, Rules, TableHandle,
};
use relive_table::{NewItem, Snapshot, TableConfig};
use relive_tensor::{Chunk, Codec, SequenceRange, Slice, Tensor, TrajectoryBuilder, encode_chunk};

const WAIT: Duration = Duration::from_secs(10);

/// Returns an engine with room for 1,000 bytes.
fn engine() -> Engine {
    let tables = ["small", "large"].map(TableConfig::new);
    let builder = tables.into_iter().fold(Engine::builder().seed(1), EngineBuilder::table);
    builder.max_bytes(1_000).max_bytes_wait(WAIT).build().unwrap()
}

fn chunk(engine: &Engine, key: u64, bytes: usize) -> Arc<Chunk> {
    let rows = Tensor::from_slice(&vec![0_u8; bytes], [1, u32::try_from(bytes).unwrap()]).unwrap();
    let range = SequenceRange { episode_id: key, start: 0, end: 0, sparse: false };
    let parts = encode_chunk(key, range, &[rows], false, Codec::Raw).unwrap();
    Arc::new(Chunk::new(parts).unwrap().with_ledger(Arc::clone(engine.ledger())))
}

fn item(engine: &Engine, key: u64, bytes: usize) -> NewItem {
    let mut builder = TrajectoryBuilder::new();
    builder.begin_column(true);
    let chunk = builder.chunk(chunk(engine, key, bytes));
    builder.slice(Slice { chunk, offset: 0, length: 1, index: 0 });
    NewItem { key, priority: 1.0, times_sampled: 0, trajectory: builder.build().unwrap() }
}

fn insert(table: &TableHandle, item: NewItem) -> Result<(), EngineError> {
    let mut writer = Writer::new(table);
    table.insert([item], &"writer".into(), &writer.confirmations, &mut writer.confirmed).map(drop)
}

fn poll(gate: &mut MemoryGate) -> Poll<Result<(), EngineError>> {
    gate.poll_open(&mut Context::from_waker(Waker::noop()), || 0)
}

/// Counts how often a waker is woken.
#[derive(Default)]
struct Alarm(AtomicUsize);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Alarm {
    fn rings(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

#[tokio::test(start_paused = true)]
async fn a_timed_out_writer_gets_a_breakdown_of_memory_use() {
    let engine = engine();
    let [small, large] = ["small", "large"].map(|name| engine.table(name).unwrap());
    insert(&small, item(&engine, 1, 300)).unwrap();
    insert(&large, item(&engine, 2, 700)).unwrap();
    let mut gate = engine.memory_gate(&"actor".into());
    assert!(gate.is_open(), "1,000 bytes are not more than 1,000");
    gate.opened(|| 0).await.unwrap();
    insert(&large, item(&engine, 3, 1)).unwrap();
    let started = tokio::time::Instant::now();
    let error = gate.opened(|| 0).await.unwrap_err();
    assert_eq!((error.kind(), started.elapsed()), (ErrorKind::ResourceExhausted, WAIT));
    assert_eq!(
        error.to_string(),
        "server memory: chunks take 1.0 kB, max_bytes of the server is 1.0 kB, and too little memory was freed \
         within 10.0s; the largest tables are large (701 B), small (300 B). Sample or delete items, give these \
         tables a smaller max_size or their own max_bytes, or raise the server's max_bytes"
    );
    assert!(engine.memory().waiters.is_empty());
    assert!(poll(&mut gate).is_pending(), "the next call waits anew");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_is_listed_until_it_proceeds_or_gives_up() {
    let engine = engine();
    let table = engine.table("small").unwrap();
    insert(&table, item(&engine, 1, 1_001)).unwrap();
    let gates = ["first", "second"].map(|who| engine.memory_gate(&who.into()));
    let [mut first, mut second] = gates;
    assert!(poll(&mut first).is_pending());
    tokio::time::advance(Duration::from_secs(2)).await;
    assert!(poll(&mut second).is_pending() && poll(&mut first).is_pending());
    let status = engine.memory();
    let listed: Vec<_> = status.waiters.iter().map(|waiter| (&*waiter.who, waiter.waiting)).collect();
    assert_eq!(listed, [("first", Duration::from_secs(2)), ("second", Duration::ZERO)]);
    assert_eq!((status.waiters_not_listed, status.max_bytes), (0, Some(1_000)));
    assert_eq!(status.reason(), "server memory: chunks take 1.0 kB, max_bytes is 1.0 kB");
    drop(first);
    assert_eq!(engine.memory().waiters.len(), 1);
    table.mutate([Mutation::Delete { key: 1 }]).unwrap();
    assert!(poll(&mut second).is_ready());
    assert!(engine.memory().waiters.is_empty());
    let given_up = tokio::time::timeout(Duration::from_secs(1), async {
        insert(&table, item(&engine, 2, 2_000)).unwrap();
        second.opened(|| 0).await
    });
    assert!(given_up.await.is_err());
    assert!(engine.memory().waiters.is_empty(), "a future that is dropped waits no longer");
}

#[tokio::test(start_paused = true)]
async fn freed_chunks_wake_waiters_one_at_a_time() {
    let engine = engine();
    let table = engine.table("small").unwrap();
    insert(&table, item(&engine, 1, 900)).unwrap();
    insert(&table, item(&engine, 2, 900)).unwrap();
    let alarms = [(); 2].map(|()| Arc::new(Alarm::default()));
    let mut gates = ["a", "b"].map(|who| engine.memory_gate(&who.into()));
    let mut polled = |which: usize| {
        let waker = Waker::from(Arc::clone(&alarms[which]));
        gates[which].poll_open(&mut Context::from_waker(&waker), || 0).is_ready()
    };
    assert!(!polled(0) && !polled(1));
    insert(&table, item(&engine, 3, 0)).unwrap();
    table.mutate([Mutation::Delete { key: 3 }]).unwrap();
    assert_eq!([0, 1].map(|which: usize| alarms[which].rings()), [0, 0], "there is no room yet");
    table.mutate([Mutation::Delete { key: 1 }]).unwrap();
    assert_eq!([0, 1].map(|which: usize| alarms[which].rings()), [1, 0]);
    assert!(polled(0));
    assert_eq!(alarms[1].rings(), 1, "who goes on wakes the next");
    assert!(polled(1));
}

#[tokio::test(start_paused = true)]
async fn chunks_freed_outside_of_tables_are_noticed_within_milliseconds() {
    let engine = engine();
    let held = chunk(&engine, 1, 2_000);
    let mut gate = engine.memory_gate(&"actor".into());
    assert!(poll(&mut gate).is_pending());
    let since = tokio::time::Instant::now();
    let waiting = tokio::spawn(async move { gate.opened(|| 0).await });
    tokio::time::advance(Duration::from_millis(100)).await;
    assert!(!waiting.is_finished());
    drop(held);
    waiting.await.unwrap().unwrap();
    let waited = since.elapsed();
    assert!(waited <= Duration::from_millis(105), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn chunks_of_a_writer_itself_do_not_block_it() {
    let engine = engine();
    let brought = chunk(&engine, 1, 900);
    insert(&engine.table("small").unwrap(), item(&engine, 2, 1_000)).unwrap();
    let mut gate = engine.memory_gate(&"actor".into());
    assert!(!brought.is_held() && !gate.is_open() && gate.is_open_beside(brought.size_bytes()));
    gate.opened(|| brought.size_bytes()).await.unwrap();
    insert(&engine.table("small").unwrap(), item(&engine, 3, 1)).unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    assert!(gate.poll_open(&mut cx, || brought.size_bytes()).is_pending());
}

#[tokio::test(start_paused = true)]
async fn a_closed_engine_releases_waiting_writers() {
    let engine = engine();
    let table = engine.table("small").unwrap();
    insert(&table, item(&engine, 1, 2_000)).unwrap();
    let mut gate = engine.memory_gate(&"actor".into());
    let alarm = Arc::new(Alarm::default());
    assert!(gate.poll_open(&mut Context::from_waker(&Waker::from(Arc::clone(&alarm))), || 0).is_pending());
    engine.close();
    assert_eq!(alarm.rings(), 1);
    assert!(matches!(poll(&mut gate), Poll::Ready(Ok(()))));
    let closed = insert(&table, item(&engine, 2, 1)).unwrap_err();
    assert_eq!(closed.kind(), ErrorKind::Cancelled, "the table says it");
}

#[test]
fn a_byte_limit_of_zero_is_refused() {
    let error = Engine::builder().table(TableConfig::new("t")).max_bytes(0).build().unwrap_err();
    assert!(matches!(error, BuildError::MaxBytes));
    assert_eq!(
        error.to_string(),
        "max_bytes of a server must be at least 1, got 0; omit it for a server without this bound"
    );
}

#[test]
fn an_item_larger_than_max_bytes_is_refused_before_waiting() {
    let full = TableConfig::queue("t", 1).max_bytes(100);
    let engine = Engine::builder().table(full).build().unwrap();
    let table = engine.table("t").unwrap();
    insert(&table, item(&engine, 1, 100)).unwrap();
    assert_eq!(table.insert_shortfall().map(|_| ()), Some(()), "the limiter holds inserts back");
    let error = insert(&table, item(&engine, 2, 101)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(
        error.to_string(),
        "table \"t\" refused item 2: its chunks have 101 bytes, but max_bytes is 100; create items or chunks of fewer \
         steps, or raise max_bytes"
    );
    assert_eq!(table.status().waiters.len(), 0);
}

#[test]
fn a_table_reports_its_bytes() {
    let engine = engine();
    let [small, large] = ["small", "large"].map(|name| engine.table(name).unwrap());
    let both = item(&engine, 1, 400);
    insert(&small, both.clone()).unwrap();
    insert(&small, NewItem { key: 2, ..both.clone() }).unwrap();
    insert(&large, both).unwrap();
    insert(&large, item(&engine, 3, 50)).unwrap();
    let [a, b] = [&small, &large].map(|table| table.status().bytes);
    assert_eq!((a.chunks, a.encoded_bytes, a.raw_bytes, a.shared_bytes), (1, 400, 400, 400));
    assert_eq!((b.chunks, b.encoded_bytes, b.shared_bytes, b.resident_bytes()), (2, 450, 400, 450));
    small.reset().unwrap();
    assert_eq!(small.status().bytes, relive_tensor::ChunkTotals::default());
    assert_eq!(large.status().bytes.shared_bytes, 0);
}

#[test]
fn a_byte_limit_that_a_format_lacks_comes_from_the_builder() {
    let engine = engine();
    for key in 0..5 {
        insert(&engine.table("small").unwrap(), item(&engine, key, 100)).unwrap();
    }
    let given = || {
        let builder = Engine::builder().table(TableConfig::new("small").max_bytes(250));
        builder.table(TableConfig::new("large"))
    };
    let unbounded = given().build_from(engine.snapshot(), Rules::Stored).unwrap().engine;
    let small = unbounded.table("small").unwrap().status();
    assert_eq!((small.info.config.max_bytes, small.info.current_size), (None, 5), "the bound was removed");
    let reverb = Snapshot { lacks_own_rules: true, ..engine.snapshot() };
    let restored = given().build_from(reverb, Rules::Stored).unwrap();
    let small = restored.engine.table("small").unwrap().status();
    assert_eq!((small.info.config.max_bytes, small.info.current_size), (Some(250), 2));
    assert!(restored.differences.is_empty());
    let stored = Engine::builder().table(TableConfig::new("small")).table(TableConfig::new("large"));
    let again = stored.build_from(restored.engine.snapshot(), Rules::Stored).unwrap();
    assert_eq!(again.engine.table("small").unwrap().config().max_bytes, Some(250));
    let actual: Vec<_> = again.differences.iter().map(ToString::to_string).collect();
    assert_eq!(actual, ["table small: max_bytes is 250 in the checkpoint and none in the configuration"]);
}
