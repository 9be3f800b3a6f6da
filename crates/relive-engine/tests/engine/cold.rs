//! Tests the disk tier with a simulated disk in memory.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::common::request;
use bytes::Bytes;
use relive_engine::{BuildError, Confirmations, Engine, ErrorKind, TableHandle};
use relive_table::{NewItem, Sampled, TableConfig};
use relive_tensor::{
    Chunk, Codec, ColdError, ColdStore, SequenceRange, Slice, Tensor, TensorError, Trajectory,
    TrajectoryBuilder, encode_chunk,
};

const ROW_BYTES: usize = 64 << 10;

/// This is longer than any operation in these tests takes.
const LONG: Duration = Duration::from_secs(60);

#[derive(Default)]
struct MemoryDisk {
    stored: Mutex<HashMap<usize, Bytes>>,
    refusals: Mutex<u32>,
    changed: Condvar,
    refused: Condvar,
    fetches: AtomicUsize,
    is_full: AtomicBool,
    is_broken: AtomicBool,
}

impl ColdStore for MemoryDisk {
    fn store(&self, chunks: &[Arc<Chunk>]) -> Result<(), ColdError> {
        if self.is_full.load(Ordering::SeqCst) {
            *self.refusals.lock().unwrap() += 1;
            self.refused.notify_all();
            return Err("disk full".into());
        }
        for chunk in chunks {
            let bytes = Bytes::copy_from_slice(&chunk.frame());
            assert!(chunk.set_place(bytes.clone()));
            chunk.evict_frame();
            self.stored.lock().unwrap().insert(Arc::as_ptr(chunk).addr(), bytes);
        }
        self.changed.notify_all();
        Ok(())
    }

    fn fetch(&self, chunks: &[Arc<Chunk>]) -> Result<Vec<Bytes>, ColdError> {
        self.fetches.fetch_add(chunks.len(), Ordering::SeqCst);
        if self.is_broken.load(Ordering::SeqCst) {
            return Err("sector 7 is gone".into());
        }
        let copy = |chunk: &Arc<Chunk>| Bytes::copy_from_slice(&chunk.frame());
        Ok(chunks.iter().filter_map(|chunk| chunk.restore_frame(&copy(chunk))).collect())
    }

    fn is_sparse(&self) -> bool {
        false
    }

    fn is_sparse_around(&self, _chunk: &Chunk) -> bool {
        false
    }
}

impl MemoryDisk {
    /// Waits until the disk has refused chunks twice; by then, the first refusal has been handled.
    fn wait_for_two_refusals(&self) {
        let few = |refusals: &mut u32| *refusals < 2;
        let waited = self.refused.wait_timeout_while(self.refusals.lock().unwrap(), LONG, few).unwrap();
        assert!(!waited.1.timed_out());
    }

    fn wait_for(&self, chunks: usize) {
        let few = |stored: &mut HashMap<_, _>| stored.len() < chunks;
        let waited = self.changed.wait_timeout_while(self.stored.lock().unwrap(), LONG, few).unwrap();
        assert!(!waited.1.timed_out(), "{} chunks were stored, not {chunks}", waited.0.len());
    }
}

fn engine(disk: &Arc<MemoryDisk>, budget_bytes: usize) -> Engine {
    let disk: Arc<dyn ColdStore> = Arc::clone(disk) as _;
    let builder = Engine::builder().table(TableConfig::new("a").max_size(10_000)).seed(1);
    builder.max_bytes(budget_bytes as u64).cold_store(disk).build().unwrap()
}

fn trajectory(engine: &Engine, value: u32) -> Result<Trajectory, TensorError> {
    let row = Tensor::from_slice(&vec![value; ROW_BYTES / 4], [1, u32::try_from(ROW_BYTES / 4).unwrap()])?;
    let range = SequenceRange { episode_id: 1, start: 0, end: 0, sparse: false };
    let parts = encode_chunk(u64::from(value), range, &[row], false, Codec::Raw).unwrap();
    let chunk = Chunk::new(parts).unwrap().with_ledger(Arc::clone(engine.ledger()));
    let mut builder = TrajectoryBuilder::new();
    let chunk = builder.chunk(chunk.into());
    builder.begin_column(false);
    builder.slice(Slice { chunk, offset: 0, length: 1, index: 0 });
    Ok(builder.build().unwrap())
}

fn fill(engine: &Engine, table: &TableHandle, values: std::ops::Range<u32>) {
    let (who, confirmations) = ("test".into(), Arc::new(Confirmations::default()));
    for value in values {
        let trajectory = trajectory(engine, value).unwrap();
        let item = NewItem { key: value.into(), priority: 1.0, times_sampled: 0, trajectory };
        let accepted = table.insert([item], &who, &confirmations, &mut Vec::new()).unwrap();
        assert_eq!(accepted.deferred, 0);
    }
}

fn assert_whole(sampled: &Sampled) {
    let tensor = sampled.item.trajectory.decode_column(0).unwrap();
    let value = u32::try_from(sampled.item.key).unwrap();
    assert!(tensor.bytes().unwrap().chunks(4).all(|number| number == value.to_le_bytes()));
}

#[tokio::test]
async fn memory_stays_within_the_budget_and_all_items_are_readable() {
    let disk = Arc::new(MemoryDisk::default());
    let engine = engine(&disk, 16 * ROW_BYTES);
    let table = engine.table("a").unwrap();
    fill(&engine, &table, 0..100);
    disk.wait_for(100 - 16);
    let ledger = engine.ledger().snapshot();
    assert_eq!((ledger.chunks, ledger.encoded_bytes), (100, (100 * ROW_BYTES) as u64));
    assert!(ledger.resident_bytes() <= (16 * ROW_BYTES) as u64, "{ledger:?}");
    let mut seen = 0;
    while seen < 2_000 {
        let samples = table.sample(request(64)).await.unwrap();
        samples.iter().for_each(assert_whole);
        seen += samples.len();
    }
    // Each of about 32 calls reads the chunks that it has drawn and that are away, each once.
    let fetches = disk.fetches.load(Ordering::SeqCst);
    assert!(fetches > 700, "most of the table is away, but {fetches} chunks were read");
    let found = table.get_items(&(0..200).collect::<Vec<_>>()).await.unwrap();
    assert_eq!(found.iter().flatten().count(), 100);
    found.iter().flatten().for_each(assert_whole);
}

/// Returns the output of a future that is ready without a runtime.
fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the future waits"),
    }
}

#[test]
fn items_on_disk_are_read_outside_a_runtime() {
    let disk = Arc::new(MemoryDisk::default());
    let engine = engine(&disk, ROW_BYTES);
    let table = engine.table("a").unwrap();
    fill(&engine, &table, 0..50);
    disk.wait_for(49);
    now(table.sample(request(64))).unwrap().iter().for_each(assert_whole);
    assert!(disk.fetches.load(Ordering::SeqCst) > 0, "all samples were in memory");
    let found = now(table.get_items(&[1, 2, 3])).unwrap();
    found.iter().map(Option::as_ref).map(Option::unwrap).for_each(assert_whole);
    disk.is_broken.store(true, Ordering::SeqCst);
    let error = now(table.sample(request(64))).unwrap_err();
    assert_eq!((error.kind(), table.status().undelivered_samples), (ErrorKind::DataLoss, 64));
}

#[tokio::test]
async fn samples_that_share_a_chunk_read_it_once() {
    let disk = Arc::new(MemoryDisk::default());
    let engine = engine(&disk, ROW_BYTES / 2);
    let table = engine.table("a").unwrap();
    fill(&engine, &table, 0..1);
    disk.wait_for(1);
    let samples = table.sample(request(64)).await.unwrap();
    assert!(samples.len() > 1);
    samples.iter().for_each(assert_whole);
    assert_eq!(disk.fetches.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn sampled_chunks_stay_in_memory_while_referenced() {
    let disk = Arc::new(MemoryDisk::default());
    let engine = engine(&disk, 16 * ROW_BYTES);
    let table = engine.table("a").unwrap();
    fill(&engine, &table, 0..100);
    disk.wait_for(100 - 16);
    let held = table.sample(request(8)).await.unwrap();
    let is_resident =
        |sampled: &Sampled| sampled.item.trajectory.chunks().iter().all(|chunk| chunk.is_resident());
    for _ in 0..50 {
        table.sample(request(16)).await.unwrap().iter().for_each(assert_whole);
        assert!(held.iter().all(is_resident));
        let resident = engine.ledger().snapshot().resident_bytes();
        // The bound is the sum of the held samples, the last samples, and the budget.
        assert!(resident <= ((8 + 16 + 16) * ROW_BYTES) as u64, "{resident}");
    }
}

#[tokio::test]
async fn a_small_table_stays_in_memory() {
    let disk = Arc::new(MemoryDisk::default());
    let engine = engine(&disk, 100 * ROW_BYTES);
    let table = engine.table("a").unwrap();
    fill(&engine, &table, 0..50);
    table.sample(request(64)).await.unwrap().iter().for_each(assert_whole);
    assert_eq!((disk.stored.lock().unwrap().len(), disk.fetches.load(Ordering::SeqCst)), (0, 0));
}

#[tokio::test]
async fn a_full_disk_loses_nothing_and_is_retried() {
    let disk = Arc::new(MemoryDisk::default());
    disk.is_full.store(true, Ordering::SeqCst);
    let engine = engine(&disk, 16 * ROW_BYTES);
    let table = engine.table("a").unwrap();
    fill(&engine, &table, 0..100);
    table.sample(request(64)).await.unwrap().iter().for_each(assert_whole);
    assert_eq!(engine.ledger().snapshot().spilled_bytes, 0);
    disk.is_full.store(false, Ordering::SeqCst);
    disk.wait_for(100 - 16);
}

#[tokio::test]
async fn unreadable_spilled_data_fails_only_that_request() {
    let disk = Arc::new(MemoryDisk::default());
    let engine = engine(&disk, ROW_BYTES);
    let table = engine.table("a").unwrap();
    fill(&engine, &table, 0..50);
    disk.wait_for(49);
    disk.is_broken.store(true, Ordering::SeqCst);
    let error = table.sample(request(64)).await.unwrap_err();
    assert_eq!((error.kind(), table.status().undelivered_samples), (ErrorKind::DataLoss, 64));
    assert!(
        error.to_string().contains("table `a`") && error.to_string().ends_with("sector 7 is gone"),
        "{error}"
    );
    assert_eq!(table.get_items(&[1]).await.unwrap_err().kind(), ErrorKind::DataLoss);
    disk.is_broken.store(false, Ordering::SeqCst);
    table.sample(request(64)).await.unwrap().iter().for_each(assert_whole);
}

#[tokio::test]
async fn a_dropped_engine_ends_its_thread() {
    let disk = Arc::new(MemoryDisk::default());
    let held = Arc::downgrade(&disk);
    let engine = engine(&disk, ROW_BYTES);
    fill(&engine, &engine.table("a").unwrap(), 0..20);
    disk.wait_for(19);
    drop((engine, disk));
    let deadline = std::time::Instant::now() + LONG;
    while held.strong_count() > 0 {
        assert!(std::time::Instant::now() < deadline, "the thread holds its disk");
        std::thread::yield_now();
    }
}

/// A disk that begins to store chunks only when a test allows it.
struct WaitingDisk {
    began: mpsc::Sender<()>,
    may_store: Mutex<mpsc::Receiver<()>>,
    stores: Arc<AtomicUsize>,
    disk: MemoryDisk,
}

impl ColdStore for WaitingDisk {
    fn store(&self, chunks: &[Arc<Chunk>]) -> Result<(), ColdError> {
        self.stores.fetch_add(1, Ordering::SeqCst);
        let _ = self.began.send(());
        let _ = self.may_store.lock().unwrap().recv();
        self.disk.store(chunks)
    }

    fn fetch(&self, chunks: &[Arc<Chunk>]) -> Result<Vec<Bytes>, ColdError> {
        self.disk.fetch(chunks)
    }

    fn is_sparse(&self) -> bool {
        false
    }

    fn is_sparse_around(&self, _chunk: &Chunk) -> bool {
        false
    }
}

#[tokio::test]
async fn the_thread_of_a_dropped_engine_stores_nothing_more() {
    let (began, has_begun) = mpsc::channel();
    let (allow, may_store) = mpsc::channel();
    let stores = Arc::new(AtomicUsize::new(0));
    let (may_store, counted) = (Mutex::new(may_store), Arc::clone(&stores));
    let disk = Arc::new(WaitingDisk { began, may_store, stores: counted, disk: MemoryDisk::default() });
    let held = Arc::downgrade(&disk);
    let builder = Engine::builder().table(TableConfig::new("a")).max_bytes(ROW_BYTES as u64);
    let engine = builder.cold_store(disk).build().unwrap();
    fill(&engine, &engine.table("a").unwrap(), 0..5);
    has_begun.recv_timeout(LONG).unwrap();
    // These chunks would be stored next.
    fill(&engine, &engine.table("a").unwrap(), 5..50);
    drop(engine);
    drop(allow);
    let deadline = std::time::Instant::now() + LONG;
    while held.strong_count() > 0 {
        assert!(std::time::Instant::now() < deadline, "the thread holds its disk");
        std::thread::yield_now();
    }
    assert_eq!(stores.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_writer_without_room_gets_the_reason() {
    let disk = Arc::new(MemoryDisk::default());
    disk.is_full.store(true, Ordering::SeqCst);
    let engine = engine(&disk, 16 * ROW_BYTES);
    fill(&engine, &engine.table("a").unwrap(), 0..17);
    disk.wait_for_two_refusals();
    let memory = engine.memory();
    assert_eq!(memory.spill_error.as_deref(), Some("disk full"));
    assert!(memory.reason().ends_with("; chunks cannot be moved to disk: disk full"), "{}", memory.reason());
    let mut gate = engine.memory_gate(&"actor".into());
    let error = gate.opened(|| 0).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceExhausted);
    assert!(error.to_string().contains("because chunks cannot be moved to disk (disk full)"), "{error}");
}

#[test]
fn a_tier_without_a_budget_is_refused() {
    let builder = Engine::builder().table(TableConfig::new("t")).cold_store(Arc::<MemoryDisk>::default());
    let error = builder.build().unwrap_err();
    assert!(matches!(error, BuildError::NoBudget), "{error}");
    assert!(error.to_string().contains("max_bytes"), "{error}");
}

#[test]
fn a_disk_tier_needs_a_budget() {
    let disk: Arc<dyn ColdStore> = Arc::new(MemoryDisk::default());
    let error = Engine::builder().table(TableConfig::new("a")).cold_store(disk).build().unwrap_err();
    assert!(error.to_string().contains("max_bytes"), "{error}");
}
