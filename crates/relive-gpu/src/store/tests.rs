//! The store against a naive model, and properties that need threads, files and other mappings.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use relive_tensor::DType;

use super::*;
use crate::error::ErrorKind;
use crate::memory::Tier;
use crate::metrics::Eviction;
use crate::schema::{Column, Schema};

const CAPACITY: u64 = 5;

fn schema() -> Schema {
    Schema::new(4, vec![Column::new("a", DType::UInt8, &[3]), Column::new("b", DType::Int64, &[])]).unwrap()
}

fn options(removal: Removal) -> StoreOptions {
    StoreOptions { removal, touch_threads: 0, readers: 3, writers: 1, ..StoreOptions::new(CAPACITY) }
}

fn removal(which: usize) -> Removal {
    let newest: Choose =
        Arc::new(|rows| (0..rows.len()).max_by_key(|&at| (rows[at].length, rows[at].inserted)));
    [
        Removal::Fifo,
        Removal::Lifo,
        Removal::LowestWeight,
        Removal::Random,
        Removal::MaxTimesSampled(2),
        Removal::Callback(newest),
    ][which]
        .clone()
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Row {
    selectable: bool,
    writing: bool,
    generation: u64,
    length: u64,
    weight: f32,
    inserted: u64,
    sampled: u64,
    pins: u64,
}

/// A store that checks every row for every decision.
struct Model {
    rows: Vec<Row>,
    free: VecDeque<u64>,
    committed: u64,
    removal: Removal,
    max_selectable: u64,
}

impl Model {
    fn new(removal: Removal, max_selectable: Option<u64>) -> Self {
        Self {
            rows: vec![Row::default(); usize::try_from(CAPACITY).unwrap()],
            free: (0..CAPACITY).collect(),
            committed: 0,
            removal,
            max_selectable: max_selectable.unwrap_or(u64::MAX),
        }
    }

    fn row(&mut self, index: u64) -> &mut Row {
        &mut self.rows[usize::try_from(index).unwrap()]
    }

    fn selectable(&self) -> u64 {
        self.rows.iter().filter(|row| row.selectable).count() as u64
    }

    fn release(&mut self, index: u64) {
        let row = self.row(index);
        assert!(row.selectable && row.pins == 0, "row {index} was evicted: {row:?}");
        *row = Row { generation: row.generation, ..Row::default() };
        self.free.push_back(index);
    }

    fn exhausted(&self) -> Vec<u64> {
        let Removal::MaxTimesSampled(times) = self.removal else { return Vec::new() };
        let gone = |row: &Row| row.selectable && row.pins == 0 && row.sampled >= times;
        (0..CAPACITY).filter(|&index| gone(&self.rows[usize::try_from(index).unwrap()])).collect()
    }

    /// Evicts the same row as the store has just evicted.
    fn evict(&mut self, store: &Store) -> bool {
        let exhausted = self.exhausted();
        exhausted.iter().for_each(|&index| self.release(index));
        if !exhausted.is_empty() {
            return true;
        }
        let all = (0..CAPACITY).map(|index| (index, self.rows[usize::try_from(index).unwrap()]));
        let rows: Vec<(u64, Row)> = all.filter(|(_, row)| row.selectable && row.pins == 0).collect();
        let victim = match &self.removal {
            Removal::Lifo => rows.iter().max_by_key(|(_, row)| row.inserted),
            Removal::LowestWeight => rows
                .iter()
                .min_by(|(_, a), (_, b)| a.weight.total_cmp(&b.weight).then(a.inserted.cmp(&b.inserted))),
            Removal::Callback(_) => rows.iter().max_by_key(|(_, row)| (row.length, row.inserted)),
            // Whichever is gone; `release` checks that it could be evicted.
            Removal::Random => rows.iter().find(|(index, row)| {
                let status = store.status(*index).unwrap();
                status.generation != row.generation || status.state == State::Free
            }),
            Removal::Fifo | Removal::MaxTimesSampled(_) => rows.iter().min_by_key(|(_, row)| row.inserted),
        };
        let victim = victim.map(|(index, _)| *index);
        victim.into_iter().for_each(|index| self.release(index));
        victim.is_some()
    }

    fn allocate(&mut self, store: &Store) -> Option<u64> {
        if self.free.is_empty() {
            self.evict(store);
        }
        let index = self.free.pop_front()?;
        let row = self.row(index);
        row.writing = true;
        row.generation += 1;
        Some(index)
    }

    fn commit(&mut self, store: &Store, index: u64, length: u64, weight: f32) {
        while self.selectable() >= self.max_selectable && self.evict(store) {}
        if matches!(self.removal, Removal::Random) {
            // If several were evicted at once, only the store knows the order.
            let found = store.inner.state.lock().free.clone();
            let sorted =
                |free: &VecDeque<u64>| free.iter().copied().collect::<std::collections::BTreeSet<u64>>();
            assert_eq!((sorted(&found), found.len()), (sorted(&self.free), self.free.len()));
            self.free = found;
        }
        let inserted = self.committed;
        self.committed += 1;
        let row = self.row(index);
        *row =
            Row { selectable: true, length, weight, inserted, generation: row.generation, ..Row::default() };
    }

    fn pin(&mut self, index: u64) -> bool {
        let limit = self.removal.max_times_sampled();
        let row = self.row(index);
        let held = row.selectable && (limit == 0 || row.sampled < limit);
        if held {
            row.pins += 1;
            row.sampled += 1;
            if row.sampled == limit {
                row.weight = 0.0;
            }
        }
        held
    }

    fn compare(&self, store: &Store) {
        assert_eq!((store.len(), store.free()), (self.selectable(), self.free.len() as u64));
        for (index, row) in (0..).zip(&self.rows) {
            let found = store.status(index).unwrap();
            let state = match row {
                Row { writing: true, .. } => State::Writing,
                Row { selectable: true, pins: 0, .. } => State::Selectable,
                Row { selectable: true, .. } => State::Pinned,
                _ => State::Free,
            };
            assert_eq!((found.state, found.generation, found.pins), (state, row.generation, row.pins));
            assert_eq!(found.weight.to_bits(), row.weight.to_bits());
            if row.selectable {
                assert_eq!(
                    (found.length, found.inserted, found.sampled),
                    (row.length, row.inserted, row.sampled)
                );
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Begin,
    Commit { length: u64, weight: u8 },
    Abort,
    Pin { index: u64 },
    Unpin,
    Reweigh { index: u64, stale: bool, weight: u8 },
    Remove { index: u64, stale: bool },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => Just(Op::Begin),
        4 => (1_u64..5, 0_u8..4).prop_map(|(length, weight)| Op::Commit { length, weight }),
        1 => Just(Op::Abort),
        3 => (0..CAPACITY).prop_map(|index| Op::Pin { index }),
        2 => Just(Op::Unpin),
        2 => (0..CAPACITY, any::<bool>(), 0_u8..4).prop_map(|(index, stale, weight)| Op::Reweigh { index, stale, weight }),
        1 => (0..CAPACITY, any::<bool>()).prop_map(|(index, stale)| Op::Remove { index, stale }),
    ]
}

/// A store, its model, and the test's pins and rows of them.
struct Pair {
    store: Store,
    model: Model,
    writings: VecDeque<Writing>,
    pins: VecDeque<Pinned>,
    weights: Vec<f32>,
}

impl Pair {
    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Begin => self.begin(),
            Op::Commit { length, weight } => {
                let Some(writing) = self.writings.pop_front() else { return };
                let index = writing.index();
                let inserted = writing.commit(length, f32::from(weight)).unwrap();
                self.model.commit(&self.store, index, length, f32::from(weight));
                assert_eq!((inserted.index, inserted.generation), (index, self.model.row(index).generation));
            }
            Op::Abort => {
                let Some(writing) = self.writings.pop_front() else { return };
                let index = writing.index();
                drop(writing);
                let row = self.model.row(index);
                *row = Row { generation: row.generation, ..Row::default() };
                self.model.free.push_back(index);
            }
            Op::Pin { index } => {
                let (pinned, missing) = self.store.reader().pin_present(&[index]).unwrap();
                let held = self.model.pin(index);
                assert_eq!((pinned.rows().len() == 1, missing.is_empty()), (held, held));
                if held {
                    self.pins.push_back(pinned);
                }
            }
            Op::Unpin => {
                let Some(pinned) = self.pins.pop_front() else { return };
                self.model.row(pinned.rows()[0].index).pins -= 1;
            }
            Op::Reweigh { index, stale, weight } => self.reweigh(index, stale, f32::from(weight)),
            Op::Remove { index, stale } => {
                let generation =
                    self.model.row(index).generation - u64::from(stale).min(self.model.row(index).generation);
                let row = *self.model.row(index);
                let applied = row.selectable && row.pins == 0 && row.generation == generation;
                let changed = self.store.remove(&[Inserted { index, generation }]).unwrap();
                assert_eq!(changed, Changed { applied: applied.into(), skipped: (!applied).into() });
                if applied {
                    self.model.release(index);
                }
            }
        }
    }

    fn begin(&mut self) {
        let before: Vec<u64> = self.writings.iter().map(Writing::index).collect();
        match self.store.begin() {
            Ok(writing) => {
                assert_eq!(self.model.allocate(&self.store), Some(writing.index()));
                assert!(!before.contains(&writing.index()), "a live index was handed out");
                self.writings.push_back(writing);
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unavailable);
                assert_eq!(self.model.allocate(&self.store), None);
            }
        }
    }

    /// Defect 7: each update reaches its own trajectory.
    fn reweigh(&mut self, index: u64, stale: bool, weight: f32) {
        let limit = self.model.removal.max_times_sampled();
        let row = self.model.row(index);
        let generation = row.generation + u64::from(stale);
        let applied = row.selectable && !stale;
        if applied && (limit == 0 || row.sampled < limit) {
            row.weight = weight;
        }
        let changed = self.store.update_weights(&[Reweigh { index, generation, weight }]).unwrap();
        assert_eq!(changed, Changed { applied: applied.into(), skipped: (!applied).into() });
    }

    /// A reader that applies the changes has the weights of all rows, except for those that were sampled for the last
    /// time and still exist.
    fn follow(&mut self) {
        for change in self.store.take_changes() {
            self.weights[usize::try_from(change.local).unwrap()] = change.weight;
        }
        let limit = self.model.removal.max_times_sampled();
        for (row, weight) in self.model.rows.iter().zip(&self.weights) {
            let last = limit > 0 && row.sampled >= limit;
            assert!(last || row.weight.to_bits() == weight.to_bits(), "{row:?} {weight}");
        }
        let mut weights = vec![0.0; self.weights.len()];
        self.store.reader().read_weights(&mut weights).unwrap();
        assert!(
            weights
                .iter()
                .zip(&self.model.rows)
                .all(|(weight, row)| weight.to_bits() == row.weight.to_bits())
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    /// Defects 9 and 18: a finished trajectory can be drawn until it is evicted, and the store knows their number.
    #[test]
    fn every_strategy_is_the_naive_models(
        which in 0_usize..6, max_selectable in proptest::option::of(1_u64..5), ops in proptest::collection::vec(op(), 1..70),
    ) {
        let options = StoreOptions { max_selectable, ..options(removal(which)) };
        let mut pair = Pair {
            store: Store::create(schema(), options).unwrap(),
            model: Model::new(removal(which), max_selectable),
            writings: VecDeque::new(),
            pins: VecDeque::new(),
            weights: vec![0.0; usize::try_from(CAPACITY).unwrap()],
        };
        for op in &ops {
            pair.apply(op);
            pair.model.compare(&pair.store);
            pair.follow();
        }
    }
}

fn insert(store: &Store, byte: u8, weight: f32) -> Inserted {
    store.insert(&[&[byte; 6], &[byte; 16]], 2, weight).unwrap()
}

/// Defect 11: a view shows the requested row, and nothing else.
#[test]
fn bytes_are_those_that_were_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("b.column");
    let mut with_file = options(Removal::Fifo);
    with_file.tiers.insert("b".into(), Tier::File(path.clone()));
    let stores = [
        Store::create(schema(), options(Removal::Fifo)).unwrap(),
        Store::create_private(schema(), options(Removal::Fifo)).unwrap(),
        Store::create(schema(), with_file.clone()).unwrap(),
    ];
    assert!(stores[1].descriptor().is_none());
    for store in &stores {
        let rows: Vec<Inserted> = (1..4).map(|byte| insert(store, byte, 1.0)).collect();
        let pinned = store.pin(&rows.iter().rev().map(|row| row.index).collect::<Vec<_>>()).unwrap();
        for (at, byte) in [(0, 3), (1, 2), (2, 1)] {
            assert_eq!(pinned.bytes(at, 0).unwrap(), [byte; 6]);
            assert_eq!(pinned.bytes(at, 1).unwrap(), [byte; 16]);
        }
        assert!(pinned.bytes(3, 0).is_err() && pinned.bytes(0, 2).is_err());
    }
    let error = Store::create(schema(), with_file).unwrap_err().to_string();
    assert!(error.contains("b.column") && error.contains("in use by process"), "{error}");
    drop(stores);
    assert!(!path.exists());
}

/// Defect 24: an attaching process sees the same rows, or an error that shows both schemas.
#[test]
fn other_mappings_show_the_same_and_other_schemas_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let name = format!("relive-gpu-attach-{}", std::process::id());
    let mut options = options(Removal::Fifo);
    options.tiers.insert("b".into(), Tier::File(directory.path().join("b.column")));
    let store = Store::create_named(&name, schema(), options).unwrap();
    let row = insert(&store, 9, 1.0);
    let by_name = Reader::attach(&name, Some(&schema())).unwrap();
    let descriptor = store.descriptor().unwrap().try_clone_to_owned().unwrap();
    // A named segment is a file, which can be truncated: only sealed memory is accepted as a descriptor.
    assert_eq!(Reader::attach_descriptor(descriptor, None).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let pinned = by_name.pin(&[row.index]).unwrap();
    assert_eq!(pinned.bytes(0, 0).unwrap(), [9; 6]);
    assert_eq!(pinned.bytes(0, 1).unwrap(), [9; 16]);
    assert_eq!(store.status(row.index).unwrap().pins, 1);
    let other = Schema::new(4, vec![Column::new("a", DType::Int8, &[3])]).unwrap();
    let error = Reader::attach(&name, Some(&other)).unwrap_err().to_string();
    assert!(
        error.contains("a uint8[3], b int64[]") && error.contains("expects 4 steps of (a int8[3])"),
        "{error}"
    );
    let third = Reader::attach(&name, None).unwrap();
    assert_eq!(Reader::attach(&name, None).unwrap_err().kind(), ErrorKind::Unavailable);
    drop(third);
    assert!(Reader::attach(&name, None).is_ok());
}

#[test]
fn anonymous_memory_is_attached_by_its_descriptor() {
    let store = Store::create(schema(), options(Removal::Fifo)).unwrap();
    let row = insert(&store, 7, 1.0);
    let descriptor = store.descriptor().unwrap().try_clone_to_owned().unwrap();
    let reader = Reader::attach_descriptor(descriptor, Some(&schema())).unwrap();
    assert_eq!(reader.pin(&[row.index]).unwrap().bytes(0, 0).unwrap(), [7; 6]);
    drop(store);
    let null = std::fs::File::open("/dev/null").unwrap();
    assert!(Reader::attach_descriptor(null.into(), None).is_err());
}

#[test]
fn a_wait_for_a_row_ends_when_a_pin_goes() {
    let store = Store::create(schema(), options(Removal::Fifo)).unwrap();
    let rows: Vec<u64> = (0..5).map(|byte| insert(&store, byte, 1.0).index).collect();
    let pinned = store.pin(&rows).unwrap();
    let error = store.begin_within(Duration::from_millis(5)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    std::thread::scope(|scope| {
        let waiting =
            scope.spawn(|| store.begin_within(Duration::from_secs(20)).map(|writing| writing.index()));
        while store.inner.segment.releases().1.load(std::sync::atomic::Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        drop(pinned);
        assert_eq!(waiting.join().unwrap().unwrap(), 0);
    });
    let metrics = store.metrics();
    // The second wait may find the pin gone before it sleeps.
    assert!(metrics.waits == 1 || metrics.waits == 2, "{metrics:?}");
    assert_eq!(metrics.evictions[0], (Eviction::NoFree, 1));
    assert_eq!(metrics.ages.iter().sum::<u64>(), 5);
}

/// Readers that pin as fast as they can never see a row change while it is pinned.
#[test]
fn pinned_rows_stay_as_they_are() {
    let store = Store::create(schema(), options(Removal::Random)).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let (pinned, _) = store.reader().pin_present(&[0, 1, 2, 3]).unwrap();
                    for row in 0..pinned.rows().len() {
                        let [a, b] = [0, 1].map(|column| pinned.bytes(row, column).unwrap());
                        assert!(a.iter().chain(b).all(|&byte| byte == a[0]), "{a:?} {b:?}");
                    }
                }
            });
        }
        for number in 0..20_000_u32 {
            insert(&store, number.to_le_bytes()[0], 1.0);
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn what_makes_no_sense_is_refused() {
    let base = options(Removal::Fifo);
    let mut tier = base.clone();
    tier.tiers.insert("c".into(), Tier::Host);
    for options in [
        StoreOptions { capacity: 0, ..base.clone() },
        StoreOptions { rank: 1, ..base.clone() },
        StoreOptions { readers: 0, ..base.clone() },
        StoreOptions { writers: MAX_WRITERS + 1, ..base.clone() },
        StoreOptions { max_selectable: Some(0), ..base.clone() },
        StoreOptions { max_selectable: Some(CAPACITY + 1), ..base.clone() },
        StoreOptions { removal: Removal::MaxTimesSampled(0), ..base.clone() },
        StoreOptions { capacity: 1 << 60, ..base.clone() },
        tier,
    ] {
        assert!(Store::create(schema(), options).is_err());
    }
    let store = Store::create(schema(), StoreOptions { rank: 1, ranks: 2, ..base }).unwrap();
    let row = insert(&store, 1, 1.0);
    assert_eq!(row.index, CAPACITY);
    assert_eq!(store.pin(&[0]).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(store.pin(&[CAPACITY + 1]).unwrap_err().kind(), ErrorKind::NotFound);
    for weight in [f32::NAN, -1.0, f32::INFINITY] {
        assert!(store.update_weights(&[Reweigh { index: row.index, generation: 1, weight }]).is_err());
        assert!(store.insert(&[&[0; 6], &[0; 16]], 2, weight).is_err());
    }
    for (columns, length) in
        [(vec![&[0; 6][..]], 2), (vec![&[0; 6], &[0; 15]], 2), (vec![&[0; 15], &[0; 40]], 5)]
    {
        assert_eq!(store.insert(&columns, length, 1.0).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    let mut writing = store.begin().unwrap();
    assert!(writing.column(2).is_err() && writing.step(0, 4).is_err() && writing.step(0, 3).is_ok());
    assert!(writing.commit(0, 1.0).is_err());
    assert_eq!((store.len(), store.free()), (1, CAPACITY - 1));
}

/// The stores of three ranks, each with one trajectory, whose bytes are its rank.
fn ranks() -> Vec<Store> {
    let store = |rank| {
        let options = StoreOptions { rank, ranks: 3, ..options(Removal::Fifo) };
        let store = Store::create(schema(), options).unwrap();
        let byte = u8::try_from(rank).unwrap();
        store.insert(&[&[byte; 3], &[byte; 8]], 1, 1.0).unwrap();
        store
    };
    (0..3).map(store).collect()
}

#[test]
fn a_reader_of_all_ranks_pins_in_the_store_that_has_the_trajectory() {
    let stores = ranks();
    let readers: Vec<Reader> = stores.iter().rev().map(|store| store.reader().clone()).collect();
    let all = stores[1].reader().of_ranks(&readers, &[]).unwrap();
    let pinned = all.pin(&[10, 0, 5, 0]).unwrap();
    let bytes: Vec<u8> = (0..4).map(|row| pinned.bytes(row, 0).unwrap()[0]).collect();
    assert_eq!(bytes, [2, 0, 1, 0]);
    let pins =
        |stores: &[Store]| [0, 5, 10].map(|index| stores[index / 5].status(index as u64).unwrap().pins);
    assert_eq!(pins(&stores), [2, 1, 1]);
    drop(pinned);
    assert_eq!(pins(&stores), [0, 0, 0]);
    assert_eq!(all.pin(&[15]).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(stores[1].reader().pin(&[0]).unwrap_err().to_string().contains("belongs to rank 0"));
}

#[test]
fn a_batch_has_rows_of_all_ranks() {
    use crate::collect::{CollectOptions, Collector, Window};
    let stores = ranks();
    let readers: Vec<Reader> = stores.iter().map(|store| store.reader().clone()).collect();
    let all = stores[0].reader().of_ranks(&readers, &[]).unwrap();
    for sorted in [false, true] {
        let options = CollectOptions { sorted, ..CollectOptions::new(4) };
        let collector = Collector::new(&all, &[Window::new("b", 0, 2)], options).unwrap();
        let batch = collector.collect(&all.pin(&[5, 10, 0, 5]).unwrap(), &[0, 1, 0, 0]).unwrap();
        let firsts: Vec<u8> = batch.column(0).unwrap().bytes.chunks(16).map(|row| row[8]).collect();
        assert_eq!((firsts, batch.column(0).unwrap().valid), (vec![1, 0, 0, 1], &[1, 0, 1, 1][..]));
        // One rank's pins are not valid for the reader of all ranks.
        assert!(collector.collect(&stores[0].pin(&[0]).unwrap(), &[0]).is_err());
    }
}

#[test]
fn readers_that_are_not_all_ranks_are_refused() {
    let stores = ranks();
    let readers: Vec<Reader> = stores.iter().map(|store| store.reader().clone()).collect();
    let [first, second, _] = &readers[..] else { unreachable!("three were made") };
    let twice = [first.clone(), second.clone(), second.clone()];
    for (some, text) in
        [(&readers[..2], "the ranks of one index space"), (&twice[..], "the ranks of one index space")]
    {
        assert!(first.of_ranks(some, &[]).unwrap_err().to_string().contains(text));
    }
    let other = Schema::new(4, vec![Column::new("a", DType::UInt8, &[4])]).unwrap();
    let other = Store::create(other, StoreOptions { rank: 2, ranks: 3, ..options(Removal::Fifo) }).unwrap();
    let mixed = [first.clone(), second.clone(), other.reader().clone()];
    assert!(first.of_ranks(&mixed, &[]).is_err());
}

/// A refused insert evicts nothing, not even from a full store.
#[test]
fn a_trajectory_that_does_not_fit_changes_nothing() {
    let store = Store::create(schema(), options(Removal::Fifo)).unwrap();
    for _ in 0..CAPACITY {
        store.insert(&[&[1; 3], &[1; 8]], 1, 1.0).unwrap();
    }
    let refused: [(&[&[u8]], u64, f32); 5] = [
        (&[&[1; 3]], 1, 1.0),
        (&[&[1; 4], &[1; 8]], 1, 1.0),
        (&[&[1; 3], &[1; 8]], 0, 1.0),
        (&[&[1; 15], &[1; 40]], 5, 1.0),
        (&[&[1; 3], &[1; 8]], 1, f32::NAN),
    ];
    for (columns, length, weight) in refused {
        assert_eq!(store.insert(columns, length, weight).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    assert_eq!(
        (store.len(), store.metrics().evictions.iter().map(|(_, count)| count).sum::<u64>()),
        (CAPACITY, 0)
    );
    assert!((0..CAPACITY).all(|index| store.status(index).unwrap().generation == 1));
}

/// A copy of the weights is current while the number of changes stays the same.
#[test]
fn every_change_of_a_weight_is_counted() {
    let store = Store::create(schema(), options(Removal::MaxTimesSampled(2))).unwrap();
    let reader = store.reader();
    let mut seen = reader.changes();
    let mut changed = |what: &str| {
        assert_ne!(std::mem::replace(&mut seen, reader.changes()), reader.changes(), "{what}");
    };
    let place = store.insert(&[&[1; 3], &[1; 8]], 1, 1.0).unwrap();
    changed("an insertion");
    let reweigh = Reweigh { index: place.index, generation: place.generation, weight: 2.0 };
    store.update_weights(&[reweigh]).unwrap();
    changed("a new weight");
    drop(store.pin(&[place.index, place.index]).unwrap());
    changed("the last time that it may be sampled");
    store.remove(&[place]).unwrap();
    changed("its removal");
    let before = reader.changes();
    drop(store.begin().unwrap());
    store.update_weights(&[reweigh]).unwrap();
    assert_eq!(reader.changes(), before);
}

/// Any process with the segment may write to it: no length leads out of the table.
#[test]
fn a_damaged_length_is_found_before_anybody_reads() {
    let store = Store::create(schema(), options(Removal::MaxTimesSampled(3))).unwrap();
    let row = insert(&store, 7, 1.0);
    let length = &store.inner.segment.lengths()[usize::try_from(row.index).unwrap()];
    length.store(5, std::sync::atomic::Ordering::Relaxed);
    for _ in 0..2 {
        let error = store.pin(&[row.index]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(
            error.to_string().contains("trajectory 0 has a length of 5, but the limit is 4 steps"),
            "{error}"
        );
    }
    let status = store.status(row.index).unwrap();
    assert_eq!((status.pins, status.sampled), (0, 0));
    length.store(4, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(store.pin(&[row.index]).unwrap().rows()[0].length, 4);
}

/// A negative zero is the lowest weight, too, wherever it enters.
#[test]
fn the_sign_of_a_zero_does_not_matter() {
    let store = Store::create(schema(), options(Removal::LowestWeight)).unwrap();
    let zero = insert(&store, 1, -0.0);
    let rest: Vec<Inserted> = (1..CAPACITY).map(|_| insert(&store, 2, 1.0)).collect();
    assert_eq!(store.status(zero.index).unwrap().weight.to_bits(), 0);
    assert_eq!(insert(&store, 3, 1.0).index, zero.index);
    let Inserted { index, generation } = rest[2];
    store.update_weights(&[Reweigh { index, generation, weight: -0.0 }]).unwrap();
    assert_eq!(insert(&store, 4, 1.0).index, index);
}

/// A header with a correct check sum can still be inconsistent.
#[test]
fn ranks_that_make_no_sense_are_damage() {
    let store = Store::create(schema(), options(Removal::Fifo)).unwrap();
    let mut header = store.inner.segment.header().clone();
    header.shape.ranks = 0;
    let file = std::fs::File::from(store.descriptor().unwrap().try_clone_to_owned().unwrap());
    std::os::unix::fs::FileExt::write_all_at(&file, &header.encode().0, 0).unwrap();
    let error = Reader::attach_descriptor(file.into(), None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("rank is 0 of 0 ranks"), "{error}");
}
