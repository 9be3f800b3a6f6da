//! Performs random operations on an outbox, with a simulated server that follows dm-reverb's rules exactly.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use relive_wire::reverb::InsertStreamRequest;
use relive_wire::v1::InsertItems;

use super::super::item::PendingItem;
use super::Outbox;
use crate::chunks::{ChunkRef, ChunkSlot};
use crate::columns::{CellSpec, Column, Run, Runs};

/// The server's side of one stream, and the items that have arrived on all streams.
#[derive(Default)]
struct ModelServer {
    held: HashMap<u64, Bytes>,
    to_confirm: VecDeque<u64>,
    arrived: Vec<u64>,
}

impl ModelServer {
    fn new_stream(&mut self) {
        self.held.clear();
        self.to_confirm.clear();
    }

    fn handle(&mut self, request: &RequestContent) {
        assert!(!request.chunks.is_empty() || !request.items.is_empty(), "INVALID_ARGUMENT: empty request");
        for chunk in &request.chunks {
            let key = key_of(chunk);
            assert!(self.held.insert(key, chunk.clone()).is_none(), "chunk {key} was sent twice");
        }
        if request.items.is_empty() {
            return;
        }
        for (item, chunks) in &request.items {
            for key in chunks {
                assert!(self.held.contains_key(key), "INTERNAL: chunk {key} not held");
            }
            if !self.arrived.contains(item) {
                self.arrived.push(*item);
            }
            self.to_confirm.push_back(*item);
        }
        self.held.retain(|key, _| request.keep.contains(key));
        assert_eq!(self.held.len(), request.keep.len(), "FAILED_PRECONDITION");
    }
}

/// The content of a request, independent of the protocol.
struct RequestContent {
    chunks: Vec<Bytes>,
    /// The keys of items, and of the chunks to which their slices refer.
    items: Vec<(u64, Vec<u64>)>,
    keep: Vec<u64>,
}

impl RequestContent {
    fn by_item(request: InsertStreamRequest) -> RequestContent {
        let items = request.items.iter().map(|item| {
            let columns = &item.flat_trajectory.as_ref().unwrap().columns;
            let slices = columns.iter().flat_map(|column| &column.chunk_slices);
            (item.key, slices.map(|slice| slice.chunk_key).collect())
        });
        RequestContent { items: items.collect(), chunks: request.chunks, keep: request.keep_chunk_keys }
    }

    fn in_columns(request: InsertItems) -> RequestContent {
        let mut items = Vec::new();
        for run in &request.runs {
            assert_eq!(run.squeeze, [false]);
            let mut slices = run.chunks.iter().map(|&place| run.chunk_keys[place as usize]);
            for (at, &key) in run.keys.iter().enumerate() {
                let count = run.slices.get(at).map_or(1, |&count| count as usize);
                items.push((key, slices.by_ref().take(count).collect()));
            }
            assert_eq!(slices.next(), None);
        }
        RequestContent { items, chunks: request.chunks, keep: request.keep_chunk_keys }
    }
}

#[derive(Debug, Clone)]
enum Op {
    /// A new chunk begins; its size determines how requests are divided.
    BeginChunk {
        bytes: usize,
    },
    /// The newest chunk is cut.
    CutChunk,
    /// An item that refers to the chunks at these positions of the history, counted from the newest.
    Item {
        ages: Vec<usize>,
    },
    /// The history drops its oldest chunk, unless it is the only one.
    Forget,
    Send,
    Confirm {
        keys: usize,
    },
    /// A new stream begins, which may use the other protocol.
    Reconnect {
        in_columns: bool,
    },
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        3 => prop_oneof![Just(10), Just(400_000), Just(2_000_000)].prop_map(|bytes| Op::BeginChunk { bytes }),
        3 => Just(Op::CutChunk),
        4 => prop::collection::vec(0..5_usize, 1..4).prop_map(|ages| Op::Item { ages }),
        1 => Just(Op::Forget),
        4 => Just(Op::Send),
        2 => (1..4_usize).prop_map(|keys| Op::Confirm { keys }),
        1 => any::<bool>().prop_map(|in_columns| Op::Reconnect { in_columns }),
    ];
    prop::collection::vec(op, 1..60)
}

struct Model {
    outbox: Outbox,
    server: ModelServer,
    history: VecDeque<(ChunkRef, usize)>,
    created: Vec<u64>,
    next_key: u64,
    /// Whether items on the current stream are sent in columns.
    in_columns: bool,
}

impl Model {
    fn new() -> Model {
        let mut outbox = Outbox::default();
        outbox.start_stream();
        Model {
            outbox,
            server: ModelServer::default(),
            history: VecDeque::new(),
            created: Vec::new(),
            next_key: 1,
            in_columns: false,
        }
    }

    fn key(&mut self) -> u64 {
        self.next_key += 1;
        self.next_key
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::BeginChunk { bytes } => {
                self.cut();
                let slot = Arc::new(ChunkSlot::unfilled(self.key()));
                self.history.push_back((ChunkRef::new(slot, 0), *bytes));
            }
            Op::CutChunk => self.cut(),
            Op::Item { ages } => self.create(ages),
            // A column never drops the chunk that is being filled.
            Op::Forget if self.history.len() > 1 => drop(self.history.pop_front()),
            Op::Forget => {}
            Op::Send => self.send(),
            Op::Confirm { keys } => self.confirm(*keys),
            Op::Reconnect { in_columns } => {
                self.in_columns = *in_columns;
                self.outbox.start_stream();
                self.server.new_stream();
            }
        }
    }

    fn cut(&mut self) {
        let Some((chunk, bytes)) = self.history.back() else { return };
        if !chunk.is_cut() {
            chunk.fill_with_message(encoded(chunk.key(), *bytes));
            self.outbox.chunk_was_cut(chunk);
        }
    }

    fn create(&mut self, ages: &[usize]) {
        let newest_first: Vec<&ChunkRef> = self.history.iter().rev().map(|(chunk, _)| chunk).collect();
        let cells = ages.iter().filter_map(|age| newest_first.get(*age)).map(|chunk| Run {
            chunk: (*chunk).clone(),
            offset: 0,
            length: 1,
        });
        let runs: Runs = cells.collect();
        if runs.is_empty() {
            return;
        }
        let spec = CellSpec::new(0, 0, Arc::from("x"), relive_tensor::DType::UInt8, [].into_iter().collect());
        let column = Column::new(Arc::new(spec), runs, false);
        let key = self.key();
        self.outbox.push(PendingItem::new(key, Arc::from("t"), 1.0, &[column]));
        self.created.push(key);
    }

    fn next_request(&mut self) -> Option<RequestContent> {
        if self.in_columns {
            self.outbox.next_request().map(RequestContent::in_columns)
        } else {
            self.outbox.next_request().map(RequestContent::by_item)
        }
    }

    fn send(&mut self) {
        if let Some(request) = self.next_request() {
            self.server.handle(&request);
        }
    }

    fn confirm(&mut self, keys: usize) {
        for _ in 0..keys {
            let Some(key) = self.server.to_confirm.pop_front() else { return };
            assert!(self.outbox.confirm(key).is_some(), "item {key} was not in flight");
        }
    }
}

/// Returns a stand-in for an encoded chunk. The outbox does not read its content. Its first bytes are the key.
fn encoded(key: u64, bytes: usize) -> Bytes {
    let mut message = vec![0; bytes.max(8)];
    message[..8].copy_from_slice(&key.to_le_bytes());
    Bytes::from(message)
}

fn key_of(chunk: &Bytes) -> u64 {
    u64::from_le_bytes(chunk[..8].try_into().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn every_item_arrives_once_and_in_order_whatever_happens(ops in ops()) {
        let mut run = Model::new();
        for op in &ops {
            run.apply(op);
        }
        // All open chunks are cut, as in a flush, and everything is sent and confirmed.
        run.cut();
        for _ in 0..=run.created.len() * 8 {
            run.send();
            run.confirm(usize::MAX);
        }
        prop_assert_eq!(&run.server.arrived, &run.created);
        prop_assert_eq!(run.outbox.pending_items(), 0);
        prop_assert_eq!(run.outbox.pending_bytes(), 0);
    }
}

#[test]
fn a_large_item_is_spread_over_requests_and_a_small_burst_is_not() {
    let mut run = Model::new();
    for _ in 0..3 {
        run.apply(&Op::BeginChunk { bytes: 900_000 });
    }
    run.cut();
    run.create(&[0, 1, 2]);
    let sizes =
        std::iter::from_fn(|| run.next_request()).map(|request| (request.chunks.len(), request.items.len()));
    assert_eq!(sizes.collect::<Vec<_>>(), [(1, 0), (1, 0), (1, 1)]);

    let mut run = Model::new();
    for _ in 0..100 {
        run.apply(&Op::BeginChunk { bytes: 400 });
        run.cut();
        run.create(&[0]);
    }
    let request = run.next_request().unwrap();
    assert_eq!((request.chunks.len(), request.items.len()), (100, 100));
    assert!(run.next_request().is_none());
}
