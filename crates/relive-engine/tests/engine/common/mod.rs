//! Small items and tables for tests.

use std::sync::Arc;
use std::task::{Context, Waker};

use relive_engine::{Confirmations, Engine, Outcome, SampleRequest, TableHandle};
use relive_table::{NewItem, RateLimiterConfig, SelectorKind, TableConfig};
use relive_tensor::{Chunk, Codec, SequenceRange, Slice, Tensor, TrajectoryBuilder, encode_chunk};

/// Returns an item of one step whose only value is the key.
pub fn item(key: u64) -> NewItem {
    let rows = Tensor::from_slice(&[key], [1]).unwrap();
    let range = SequenceRange { episode_id: key, start: 0, end: 0, sparse: false };
    let chunk = Chunk::new(encode_chunk(key, range, &[rows], false, Codec::Snappy).unwrap()).unwrap();
    let mut builder = TrajectoryBuilder::new();
    builder.begin_column(true);
    let chunk = builder.chunk(Arc::new(chunk));
    builder.slice(Slice { chunk, offset: 0, length: 1, index: 0 });
    NewItem { key, priority: 1.0, times_sampled: 0, trajectory: builder.build().unwrap() }
}

/// Returns a table from which every item is sampled once, in order.
pub fn queue(size: u32) -> (Engine, TableHandle) {
    engine(TableConfig::queue("queue", size))
}

/// Returns a table that needs `min_size` items before it can be sampled.
pub fn min_size(min_size: i64) -> (Engine, TableHandle) {
    let limiter = RateLimiterConfig::min_size(min_size).unwrap();
    engine(TableConfig::new("replay").sampler(SelectorKind::Fifo).rate_limiter(limiter))
}

pub fn engine(config: TableConfig) -> (Engine, TableHandle) {
    let name = config.name.clone();
    let engine = Engine::builder().table(config).seed(7).build().unwrap();
    let table = engine.table(&name).unwrap().clone();
    (engine, table)
}

/// One stream of inserts, as in a server.
pub struct Writer {
    pub table: TableHandle,
    pub confirmations: Arc<Confirmations>,
    pub confirmed: Vec<u64>,
}

impl Writer {
    pub fn new(table: &TableHandle) -> Self {
        Self { table: table.clone(), confirmations: Arc::default(), confirmed: Vec::new() }
    }

    /// Inserts items and returns how many had to wait.
    pub fn insert(&mut self, keys: impl IntoIterator<Item = u64>) -> usize {
        let items = keys.into_iter().map(item);
        let who: Arc<str> = "test writer".into();
        self.table.insert(items, &who, &self.confirmations, &mut self.confirmed).unwrap().deferred
    }

    /// Returns the outcomes that were reported after their inserts had returned.
    pub fn settled(&self) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        let cx = Context::from_waker(Waker::noop());
        let _ = self.confirmations.poll_settled(&cx, &mut outcomes);
        outcomes
    }

    /// Returns the confirmed keys among these outcomes.
    pub fn settled_keys(&self) -> Vec<u64> {
        self.settled().into_iter().map(Result::unwrap).collect()
    }
}

pub fn request(limit: usize) -> SampleRequest {
    SampleRequest { limit, max_bytes: u64::MAX, timeout: None, who: "test sampler".into() }
}
