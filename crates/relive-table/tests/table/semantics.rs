//! Tests the edge cases of each operation.

use std::sync::Arc;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use relive_table::{
    Freed, InsertError, InsertOutcome, NewItem, PriorityError, RateLimiterConfig, Sampled, SelectorKind,
    Table, TableConfig, Timestamp,
};
use relive_tensor::{Chunk, Codec, Ledger, SequenceRange, Tensor, encode_chunk};
use relive_testkit::data;

struct Fixture {
    table: Table,
    rng: Xoshiro256PlusPlus,
    freed: Freed,
}

impl Fixture {
    fn new(config: TableConfig) -> Self {
        let table = Table::new(config, Vec::new()).expect("tests configure tables validly");
        Self { table, rng: Xoshiro256PlusPlus::seed_from_u64(1), freed: Freed::default() }
    }

    fn insert(&mut self, item: NewItem) -> Result<InsertOutcome, InsertError> {
        self.table.insert(item, Timestamp::from_nanos(9), &mut self.rng, &mut self.freed)
    }

    fn add(&mut self, key: u64, priority: f64) -> InsertOutcome {
        self.insert(data::item(key, priority)).expect("added priorities are valid")
    }

    fn sample(&mut self) -> Option<Sampled> {
        self.table.sample(&mut self.rng, &mut self.freed)
    }

    fn keys(&self) -> Vec<u64> {
        self.table.iter().map(|view| view.data.key).collect()
    }
}

fn config() -> TableConfig {
    TableConfig::new("t")
}

fn evicting(keys: &[u64]) -> InsertOutcome {
    InsertOutcome::Inserted { evicted: keys.into() }
}

#[test]
fn the_new_item_itself_may_be_evicted() {
    for remover in [SelectorKind::Lifo, SelectorKind::MinHeap] {
        let mut fixture = Fixture::new(config().remover(remover).max_size(2));
        assert_eq!((fixture.add(1, 5.0), fixture.add(2, 5.0)), (evicting(&[]), evicting(&[])));
        assert_eq!(fixture.add(3, 1.0), evicting(&[3]));
        assert_eq!(fixture.keys(), [1, 2]);
        let info = fixture.table.info();
        assert_eq!((info.inserts, info.deletes), (3, 1), "it counts as inserted and as deleted");
    }
}

/// Returns an item whose chunks have these keys and these numbers of 4-byte steps.
fn item_of(key: u64, chunks: &[Arc<Chunk>]) -> NewItem {
    NewItem { key, priority: key as f64, times_sampled: 0, trajectory: data::trajectory(chunks) }
}

fn chunk(key: u64, bytes: u16) -> Arc<Chunk> {
    data::chunk(key, key, 0, bytes / 4)
}

#[test]
fn items_are_evicted_until_a_new_one_fits_max_bytes() {
    let mut fixture = Fixture::new(config().max_bytes(100));
    for key in 1..=3 {
        assert_eq!(fixture.insert(item_of(key, &[chunk(key, 32)])), Ok(evicting(&[])));
    }
    assert_eq!(fixture.table.bytes().encoded_bytes, 96);
    assert_eq!(
        fixture.insert(item_of(4, &[chunk(4, 4)])),
        Ok(evicting(&[])),
        "100 bytes are no more than 100"
    );
    assert_eq!(fixture.insert(item_of(5, &[chunk(5, 60)])), Ok(evicting(&[1, 2])));
    assert_eq!(fixture.insert(item_of(6, &[chunk(6, 100)])), Ok(evicting(&[3, 4, 5])));
    let (info, bytes) = (fixture.table.info(), fixture.table.bytes());
    assert_eq!((info.inserts, info.deletes, info.current_size), (6, 5, 1));
    assert_eq!((bytes.chunks, bytes.encoded_bytes, bytes.raw_bytes), (1, 100, 100));
}

#[test]
fn evicting_an_item_with_shared_chunks_frees_no_bytes() {
    let mut fixture = Fixture::new(config().max_bytes(100));
    let shared = chunk(1, 60);
    fixture.insert(item_of(1, &[Arc::clone(&shared)])).unwrap();
    fixture.insert(item_of(2, &[shared, chunk(2, 20)])).unwrap();
    assert_eq!(fixture.table.bytes().encoded_bytes, 80, "a chunk of two items counts once");
    assert_eq!(fixture.insert(item_of(3, &[chunk(3, 40)])), Ok(evicting(&[1, 2])));
    assert_eq!(fixture.table.bytes().encoded_bytes, 40);
}

#[test]
fn the_new_item_itself_may_be_evicted_for_max_bytes() {
    let mut fixture = Fixture::new(config().max_bytes(100).remover(SelectorKind::Lifo));
    fixture.insert(item_of(1, &[chunk(1, 60)])).unwrap();
    assert_eq!(fixture.insert(item_of(2, &[chunk(2, 60)])), Ok(evicting(&[2])));
    assert_eq!((fixture.keys(), fixture.table.bytes().encoded_bytes), (vec![1], 60));
}

#[test]
fn an_item_larger_than_the_table_is_refused() {
    let mut fixture = Fixture::new(config().max_bytes(100));
    fixture.insert(item_of(1, &[chunk(1, 60)])).unwrap();
    let large = || item_of(2, &[chunk(2, 60), chunk(3, 44)]);
    let error = fixture.insert(large()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "table \"t\" refused item 2: its chunks have 104 bytes, but max_bytes is 100; create items or chunks of fewer \
         steps, or raise max_bytes"
    );
    assert_eq!(fixture.table.check_bytes(&large()), Err(error));
    assert_eq!((fixture.keys(), fixture.freed.len(), fixture.table.info().inserts), (vec![1], 1, 1));
    let known = NewItem { key: 1, ..large() };
    assert_eq!(fixture.insert(known), Ok(InsertOutcome::Updated), "a known item brings only its priority");
}

#[test]
fn tables_of_one_ledger_report_shared_bytes() {
    let ledger = Arc::new(Ledger::default());
    let mut tables = ["a", "b"].map(|name| {
        let table = Table::in_ledger(TableConfig::new(name), Vec::new(), Arc::clone(&ledger)).unwrap();
        Fixture { table, ..Fixture::new(config()) }
    });
    let counted = |key: u64, rows: u16| {
        let rows = Tensor::from_slice(&vec![0_u8; rows.into()], [u32::from(rows)]).unwrap();
        let range = SequenceRange { episode_id: key, start: 0, end: 0, sparse: false };
        let parts = encode_chunk(key, range, &[rows], false, Codec::Raw).unwrap();
        Arc::new(Chunk::new(parts).unwrap().with_ledger(Arc::clone(&ledger)))
    };
    let (both, one) = (counted(1, 100), counted(2, 30));
    let bytes = |fixture: &Fixture| {
        let bytes = fixture.table.bytes();
        (bytes.chunks, bytes.encoded_bytes, bytes.shared_bytes)
    };
    tables[0].insert(item_of(1, &[Arc::clone(&both)])).unwrap();
    tables[0].insert(item_of(2, &[Arc::clone(&both), one])).unwrap();
    tables[1].insert(item_of(1, &[both])).unwrap();
    assert_eq!(tables.each_ref().map(bytes), [(2, 130, 100), (1, 100, 100)]);
    let Fixture { table, freed, .. } = &mut tables[0];
    table.reset(freed);
    assert_eq!(tables.each_ref().map(bytes), [(0, 0, 0), (1, 100, 100)], "what was reset is not gone yet");
    tables[0].freed.clear();
    assert_eq!(tables.each_ref().map(bytes), [(0, 0, 0), (1, 100, 0)]);
    assert_eq!(ledger.snapshot().encoded_bytes, 100);
    let [_, other] = tables;
    drop(other);
    assert_eq!(ledger.snapshot().encoded_bytes, 0);
}

#[test]
fn inserting_a_known_key_changes_only_its_priority() {
    let mut fixture = Fixture::new(config().sampler(SelectorKind::Fifo));
    fixture.add(1, 1.0);
    fixture.add(2, 1.0);
    fixture.sample().unwrap();
    let other_data = data::trajectory(&[data::chunk(77, 7, 0, 3)]);
    let again = NewItem { key: 1, priority: 8.0, times_sampled: 5, trajectory: other_data };
    let now = Timestamp::from_nanos(1000);
    let outcome = fixture.table.insert(again, now, &mut fixture.rng, &mut fixture.freed);
    assert_eq!(outcome, Ok(InsertOutcome::Updated));
    let view = fixture.table.get(1).unwrap();
    assert_eq!((view.priority, view.times_sampled, view.data.inserted_at.as_nanos()), (8.0, 1, 9));
    assert_eq!(view.data.trajectory.chunks()[0].key(), 1, "the data stays");
    assert_eq!(fixture.freed.len(), 1, "the refused data is not dropped inside of the table");
    let info = fixture.table.info();
    assert_eq!((info.inserts, info.current_size, info.num_episodes), (2, 2, 1));
    assert_eq!(fixture.sample().unwrap().item.key, 1, "its place in the order stays");
}

#[test]
fn a_refused_priority_changes_nothing() {
    for (sampler, remover) in [
        (SelectorKind::Prioritized { exponent: 1.0 }, SelectorKind::Fifo),
        (SelectorKind::Fifo, SelectorKind::Prioritized { exponent: 1.0 }),
    ] {
        let mut fixture = Fixture::new(config().sampler(sampler).remover(remover).max_size(1));
        fixture.add(1, 3.0);
        for priority in [-1.0, f64::NAN, f64::INFINITY, f64::MAX] {
            let error = fixture.insert(data::item(2, priority)).unwrap_err();
            assert!(error.to_string().starts_with("table \"t\" refused item 2: the "), "{error}");
            let alone = fixture.table.check_priority(priority);
            assert_eq!(alone.is_ok(), priority == f64::MAX, "the sum is no matter of a single priority");
            assert!(fixture.table.update_priority(1, priority).is_err());
            assert!(fixture.insert(data::item(1, priority)).is_err(), "as an insert of a known key, too");
        }
        assert_eq!(fixture.table.get(1).unwrap().priority, 3.0);
        assert_eq!((fixture.keys(), fixture.table.info().inserts), (vec![1], 1));
        assert_eq!(fixture.table.update_priority(99, f64::NAN), Ok(false), "an unknown key is ignored");
        fixture.add(4, 2.0);
        assert_eq!((fixture.table.len(), fixture.table.info().inserts), (1, 2), "and the table works on");
    }
}

#[test]
fn heaps_refuse_only_nan() {
    let mut fixture = Fixture::new(config().sampler(SelectorKind::MaxHeap));
    let nan = PriorityError::Nan { selector: SelectorKind::MaxHeap };
    assert_eq!(fixture.table.check_priority(f64::NAN), Err(nan));
    for (key, priority) in [(1, f64::NEG_INFINITY), (2, -3.0), (3, f64::INFINITY)] {
        fixture.add(key, priority);
    }
    assert_eq!(fixture.sample().unwrap().item.key, 3);
}

#[test]
fn equal_priorities_leave_a_heap_in_the_order_of_their_last_change() {
    let mut fixture = Fixture::new(config().sampler(SelectorKind::MinHeap).max_times_sampled(1));
    for key in 1..=4 {
        fixture.add(key, 0.0);
    }
    assert_eq!(fixture.table.update_priority(1, 0.0), Ok(true));
    let order: Vec<u64> = core::iter::from_fn(|| fixture.sample()).map(|sampled| sampled.item.key).collect();
    assert_eq!(order, [2, 3, 4, 1]);
}

#[test]
fn the_last_sample_deletes_the_item_and_reports_the_size_before() {
    let mut fixture = Fixture::new(config().max_times_sampled(2));
    fixture.add(1, 1.0);
    assert_eq!(fixture.sample().map(|s| (s.times_sampled, s.table_size)), Some((1, 1)));
    assert_eq!(fixture.sample().map(|s| (s.times_sampled, s.table_size)), Some((2, 1)));
    assert!(fixture.table.is_empty());
    assert_eq!(fixture.freed.len(), 1);
    let info = fixture.table.info();
    assert_eq!((info.samples, info.deletes, info.num_unique_samples), (2, 1, 1));
    assert_eq!((info.num_episodes, info.num_deleted_episodes), (0, 1));
    assert!(fixture.sample().is_none());
}

#[test]
fn an_inserted_item_keeps_its_times_sampled() {
    let mut fixture = Fixture::new(config().max_times_sampled(3));
    fixture.insert(NewItem { times_sampled: 2, ..data::item(1, 1.0) }).unwrap();
    fixture.insert(NewItem { times_sampled: 7, ..data::item(2, 1.0) }).unwrap();
    fixture.insert(NewItem { times_sampled: i32::MAX, ..data::item(3, 1.0) }).unwrap();
    let samples = core::iter::from_fn(|| fixture.sample()).take(60).count();
    assert_eq!(samples, 60, "an item beyond its number is never deleted for it");
    assert_eq!(fixture.keys(), [2, 3], "the third sample of item 1 deleted it");
    assert_eq!(fixture.table.info().num_unique_samples, 0, "none of them was new");
    assert_eq!(fixture.table.get(3).unwrap().times_sampled, i32::MAX, "the count stops at its limit");
}

#[test]
fn a_sample_limit_below_one_means_no_limit() {
    let mut fixture = Fixture::new(config().max_times_sampled(-3));
    fixture.insert(NewItem { times_sampled: -4, ..data::item(1, 1.0) }).unwrap();
    assert_eq!(fixture.sample().map(|sampled| sampled.times_sampled), Some(-3));
    assert_eq!((fixture.table.len(), fixture.table.config().max_times_sampled), (1, -3));
}

#[test]
fn episodes_end_with_their_last_chunk() {
    let mut fixture = Fixture::new(config());
    let chunks = [data::chunk(1, 10, 0, 2), data::chunk(2, 10, 2, 2), data::chunk(3, 11, 0, 2)];
    for (key, range) in [(1, 0..2), (2, 1..3), (3, 2..3)] {
        let trajectory = data::trajectory(&chunks[range]);
        fixture.insert(NewItem { key, priority: 1.0, times_sampled: 0, trajectory }).unwrap();
    }
    let episodes = |fixture: &Fixture| {
        let info = fixture.table.info();
        (info.num_episodes, info.num_deleted_episodes)
    };
    assert_eq!(episodes(&fixture), (2, 0));
    assert!(fixture.table.delete(1, &mut fixture.freed));
    assert_eq!(episodes(&fixture), (2, 0), "item 2 still holds a chunk of episode 10");
    assert!(fixture.table.delete(2, &mut fixture.freed) && !fixture.table.delete(2, &mut fixture.freed));
    assert_eq!(episodes(&fixture), (1, 1));
}

#[test]
fn a_queue_hands_out_each_item_once_and_blocks_when_full() {
    let mut fixture = Fixture::new(TableConfig::queue("q", 3));
    for key in 1..=3 {
        fixture.add(key, 1.0);
    }
    assert_eq!(fixture.table.can_insert(1), Ok(false));
    let mut out = Vec::new();
    assert_eq!(fixture.table.sample_many(9, &mut fixture.rng, &mut out, &mut fixture.freed), 3);
    assert_eq!(out.iter().map(|sampled| sampled.item.key).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!((fixture.table.len(), fixture.table.can_insert(1)), (0, Ok(true)));
}

#[test]
fn a_reset_empties_everything_and_frees_nothing_itself() {
    let limiter = RateLimiterConfig::queue(2);
    let mut fixture = Fixture::new(config().rate_limiter(limiter));
    let chunk = data::chunk(5, 1, 0, 1);
    let trajectory = data::trajectory(std::slice::from_ref(&chunk));
    fixture.insert(NewItem { key: 1, priority: 1.0, times_sampled: 0, trajectory }).unwrap();
    fixture.add(2, 1.0);
    fixture.sample().unwrap();
    fixture.table.reset(&mut fixture.freed);
    let info = fixture.table.info();
    assert_eq!((info.current_size, info.num_episodes, info.num_deleted_episodes), (0, 0, 0));
    assert_eq!((info.inserts, info.samples, info.deletes, info.num_unique_samples), (0, 0, 0, 0));
    assert_eq!((fixture.table.contains(1), fixture.table.can_insert(2)), (false, Ok(true)));
    assert_eq!((fixture.freed.len(), Arc::strong_count(&chunk)), (2, 2));
    fixture.freed.clear();
    assert_eq!(Arc::strong_count(&chunk), 1);
    assert_eq!(fixture.add(1, 1.0), evicting(&[]), "the key is new again");
}

#[test]
fn freed_items_of_several_tables_can_be_collected() {
    let mut fixture = Fixture::new(config().max_size(1));
    for key in 0..3 {
        fixture.add(key, 1.0);
    }
    let mut all = Freed::default();
    all.append(&mut fixture.freed);
    assert_eq!((all.len(), fixture.freed.is_empty()), (2, true));
    all.clear();
    assert!(all.is_empty());
}
