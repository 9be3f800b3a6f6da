//! A client's whole connection: its bytes, split anywhere, are sent to the server's code for one connection.
//!
//! The first byte determines the size of the pieces in which the rest is sent, and whether the client reads.

use std::io::ErrorKind;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;
use std::time::Duration;

use relive_server::access::{Access, Role};
use relive_server::{Engine, serve_connection};
use relive_table::TableConfig;
use relive_tensor::{Chunk, Codec, SequenceRange, Tensor, TrajectoryBuilder, encode_chunk};
use relive_wire::item_run::RunSlice;
use relive_wire::v1::{InsertItems, ItemRun};
use relive_wire::{chunk, item_run};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

/// A table with two items, which can be sampled at once.
pub const FULL: &str = "a";

/// A queue that holds two items: further inserts wait, and so do samples while it is empty.
pub const QUEUE: &str = "q";

/// Number of bytes after which a reading client stops reading: it may have requested more than there is time for.
const ENOUGH_BYTES: usize = 256 << 10;

/// How long a connection may take to end once its client is gone, on a clock that advances only while all tasks are
/// idle.
const HANG: Duration = Duration::from_secs(600);

/// Checks that the connection ends once the client is gone, and that afterwards there are no waiters, no reserved
/// memory and no remaining chunks. Returns whether items were inserted or sampled.
pub fn check(data: &[u8]) -> bool {
    let Some((&way, bytes)) = data.split_first() else { return false };
    let size = usize::from(way >> 1).pow(2).max(1);
    let pieces: Vec<Vec<u8>> = bytes.chunks(size).map(<[u8]>::to_vec).collect();
    run(pieces, way & 1 == 1)
}

/// Sends the pieces of a connection one after the other, each when the server has nothing left to do.
pub(crate) fn run(pieces: Vec<Vec<u8>>, reads: bool) -> bool {
    let engine = engine();
    let ledger = Arc::clone(engine.ledger());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let runtime = runtime.expect("a scheduler");
    runtime.block_on(async {
        // Rust programs ignore this signal by default, but fuzz targets do not.
        let _broken_pipes = signal(SignalKind::pipe()).expect("a signal");
        let (ours, theirs) = StdUnixStream::pair().expect("two sockets");
        let server = serve_connection(theirs, engine.clone(), Access::Everybody(Role::Admin));
        let served = async { timeout(HANG, server).await.expect("the connection ends with its client") };
        // The result of the connection does not matter here.
        let _ = tokio::join!(served, client(ours, pieces, reads));
    });
    drop(runtime);
    let mut was_used = false;
    for table in engine.tables().iter() {
        assert_eq!(table.status().waiting_samples, 0, "someone who is gone waits for samples");
        let info = table.info();
        was_used |= info.inserts > i64::from(table.name() == FULL) * 2 || info.samples > 0;
    }
    let memory = engine.memory();
    assert_eq!((memory.reserved_bytes, memory.waiters.len()), (0, 0), "memory is set aside for nobody");
    drop(engine);
    assert_eq!(ledger.snapshot().chunks, 0, "chunks outlive their tables");
    was_used
}

async fn client(socket: StdUnixStream, pieces: Vec<Vec<u8>>, reads: bool) {
    socket.set_nonblocking(true).expect("a socket");
    let mut socket = UnixStream::from_std(socket).expect("a socket");
    let mut read = 0;
    for piece in pieces {
        // This fails if the server does not read, or has closed the connection.
        let Ok(Ok(())) = timeout(Duration::from_millis(1), socket.write_all(&piece)).await else { break };
        if reads {
            read += take(&mut socket, ENOUGH_BYTES.saturating_sub(read)).await;
        } else {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    // This may fail, because the socket may already be broken.
    let _ = socket.shutdown().await;
    if reads {
        take(&mut socket, ENOUGH_BYTES.saturating_sub(read)).await;
    }
}

/// Reads up to `most` bytes, until no more arrive.
async fn take(socket: &mut UnixStream, most: usize) -> usize {
    let (mut buffer, mut taken) = ([0; 4 << 10], 0);
    while taken < most {
        match timeout(Duration::from_millis(1), socket.read(&mut buffer)).await {
            Ok(Ok(read)) if read > 0 => taken += read,
            Ok(Err(error)) if error.kind() == ErrorKind::Interrupted => {}
            _ => break,
        }
    }
    taken
}

fn engine() -> Engine {
    let full = TableConfig::new(FULL).max_size(4);
    let engine = Engine::builder().seed(1).table(full).table(TableConfig::queue(QUEUE, 2)).max_bytes(1 << 20);
    let engine = engine.build().expect("two tables");
    let table = engine.table(FULL).expect("one of them");
    for key in 0..2 {
        let InsertItems { chunks, runs, .. } = step(FULL, key);
        let chunk = chunk::decode(&chunks[0]).expect("a chunk").with_ledger(Arc::clone(engine.ledger()));
        let chunk = Arc::new(chunk);
        let mut builder = TrajectoryBuilder::new();
        let items = item_run::decode(&runs[0], &mut builder, |_| Some(Arc::clone(&chunk))).expect("a run");
        let items = items.map(|item| item.expect("an item"));
        let inserted = table.insert(items, &Arc::from("first"), &Arc::default(), &mut Vec::new());
        assert_eq!(inserted.expect("room").deferred, 0);
    }
    engine
}

/// Returns a request with one chunk of one step, and an item that refers to it.
pub fn step(table: &str, key: u64) -> InsertItems {
    let rows = Tensor::from_slice(&[1.5_f32, 2.5], [1, 2]).expect("a row");
    let range = SequenceRange { episode_id: 1, start: 0, end: 0, sparse: false };
    let encoded = encode_chunk(key, range, &[rows], false, Codec::Raw).expect("a chunk");
    let chunks = vec![chunk::encode(&Chunk::new(encoded).expect("a chunk"))];
    let mut run = ItemRun::new(table, std::iter::once(false));
    run.begin_item(key, 1.0);
    run.push_column(std::iter::once(RunSlice { chunk_key: key, index: 0, offset: 0, length: 1 }));
    InsertItems { chunks, runs: vec![run], keep_chunk_keys: Vec::new() }
}
