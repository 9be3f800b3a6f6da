//! Restores a table from the state of another one.

use std::sync::Arc;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use relive_table::{
    Context, Extension, Freed, ItemView, NewItem, PriorityDiffusion, RateLimiterConfig, RestoreError,
    Sampled, SelectorKind, StoredItem, Table, TableConfig, TableSnapshot, Timestamp,
};
use relive_testkit::data;

fn rng() -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(5)
}

fn filled(config: TableConfig, keys: std::ops::Range<u64>) -> Table {
    let mut table = Table::new(config, Vec::new()).expect("tests configure tables validly");
    for key in keys {
        let item = data::item(key, key as f64);
        let now = Timestamp::from_parts(1, 7).expect("a second is in range");
        table.insert(item, now, &mut rng(), &mut Freed::default()).expect("the priorities are valid");
    }
    table
}

fn snapshot(table: &Table) -> TableSnapshot {
    let mut snapshot = table.snapshot();
    snapshot.sort();
    snapshot
}

fn restored(snapshot: TableSnapshot) -> Result<Table, RestoreError> {
    let config = TableConfig::clone(&snapshot.config);
    Table::restored(config, Vec::new(), &Arc::default(), snapshot, &mut rng(), &mut Freed::default())
}

fn sample(table: &mut Table) -> Sampled {
    table.sample(&mut rng(), &mut Freed::default()).expect("the limiter allows it")
}

#[test]
fn a_restored_table_continues_where_the_saved_one_stopped() {
    let config = TableConfig::new("t").sampler(SelectorKind::Fifo).max_size(4).max_times_sampled(2);
    let mut table = filled(config, 0..6);
    sample(&mut table);
    table.update_priority(4, 7.5).unwrap();
    let mut again = restored(snapshot(&table)).unwrap();
    let state = |table: &Table| {
        let item = |view: ItemView<'_>| {
            (view.data.key, view.data.inserted_at, view.priority, view.times_sampled, view.data.sequence)
        };
        let info = table.info();
        let counters = (info.inserts, info.samples, info.deletes, info.num_episodes);
        (
            table.iter().map(item).collect::<Vec<_>>(),
            counters,
            info.num_deleted_episodes,
            info.num_unique_samples,
        )
    };
    assert_eq!(state(&again), state(&table));
    assert_eq!(again.info().deletes, 2);
    for table in [&mut table, &mut again] {
        assert_eq!((sample(table).item.key, sample(table).item.key), (2, 3), "the third item is gone now");
        let item = data::item(9, 1.0);
        table.insert(item, Timestamp::EPOCH, &mut rng(), &mut Freed::default()).unwrap();
    }
    assert_eq!(state(&again), state(&table));
}

#[test]
fn items_that_reached_a_lowered_limit_are_removed_when_they_are_next_sampled() {
    let config = TableConfig::new("t").sampler(SelectorKind::Fifo);
    let mut table = filled(config.clone(), 0..2);
    for _ in 0..5 {
        assert_eq!(sample(&mut table).item.key, 0);
    }
    let mut snapshot = snapshot(&table);
    snapshot.config = Arc::new(config.max_times_sampled(3));
    let mut again = restored(snapshot).unwrap();
    assert_eq!((sample(&mut again).item.key, again.info().current_size), (0, 1));
    assert_eq!(sample(&mut again).item.key, 1);
}

#[test]
fn restoring_bypasses_the_limiter_and_keeps_its_counts() {
    let mut table = filled(TableConfig::queue("q", 3), 0..3);
    assert_eq!(sample(&mut table).item.key, 0);
    let again = restored(snapshot(&table)).unwrap();
    assert_eq!(again.rate_limiter(), table.rate_limiter());
    assert_eq!((again.can_insert(1), again.can_insert(2)), (Ok(true), Ok(false)));
}

#[test]
fn a_smaller_restored_table_evicts_by_its_remover() {
    let taken = snapshot(&filled(TableConfig::new("t"), 0..10));
    let config = TableConfig::new("t").max_size(3).remover(SelectorKind::MinHeap);
    let mut freed = Freed::default();
    let table = Table::restored(config, Vec::new(), &Arc::default(), taken, &mut rng(), &mut freed).unwrap();
    assert_eq!(table.iter().map(|view| view.data.key).collect::<Vec<_>>(), [7, 8, 9]);
    assert_eq!((table.info().inserts, table.info().deletes, freed.len()), (10, 7, 7));
}

#[test]
fn reducing_max_bytes_first_evicts_items_that_can_never_fit() {
    let mut table = filled(TableConfig::new("t"), 0..3);
    let large = NewItem { trajectory: data::trajectory(&[data::chunk(9, 1, 0, 10)]), ..data::item(3, 3.0) };
    table.insert(large, Timestamp::EPOCH, &mut rng(), &mut Freed::default()).unwrap();
    let taken = snapshot(&table);
    for (max_bytes, expected) in
        [(52, vec![0, 1, 2, 3]), (51, vec![1, 2, 3]), (12, vec![0, 1, 2]), (8, vec![1, 2])]
    {
        let config = TableConfig::new("t").max_bytes(max_bytes);
        let mut freed = Freed::default();
        let table =
            Table::restored(config, Vec::new(), &Arc::default(), taken.clone(), &mut rng(), &mut freed)
                .unwrap();
        let keys: Vec<u64> = table.iter().map(|view| view.data.key).collect();
        assert_eq!(keys, expected, "of {max_bytes} bytes");
        let info = table.info();
        assert_eq!((info.inserts, info.deletes), (4, 4 - i64::try_from(keys.len()).unwrap()));
    }
}

#[test]
fn inconsistent_counters_are_refused() {
    let mut taken = snapshot(&filled(TableConfig::new("t"), 0..3));
    taken.items.pop();
    let error = restored(taken.clone()).map(drop).unwrap_err();
    assert_eq!(error.to_string(), "table \"t\": 3 inserts minus 0 deletes are 3 items, but there are 2");
    taken.counters.deletes = 1;
    assert!(restored(taken.clone()).is_ok());
    taken.counters.deletes = -1;
    assert!(restored(taken).is_err());
}

#[test]
fn items_that_no_table_can_hold_are_refused() {
    let taken = snapshot(&filled(TableConfig::new("t"), 0..3));
    let refusal = |change: &dyn Fn(&mut TableSnapshot)| {
        let mut taken = taken.clone();
        change(&mut taken);
        restored(taken).map(drop).unwrap_err()
    };
    let twice = refusal(&|taken| {
        let first: &StoredItem = &taken.items[0];
        let data = relive_table::ItemData {
            key: first.data.key,
            sequence: 9,
            inserted_at: first.data.inserted_at,
            trajectory: first.data.trajectory.clone(),
        };
        taken.items[2].data = Arc::new(data);
    });
    assert_eq!(twice, RestoreError::DuplicateKey { table: "t".to_owned(), key: 0 });
    let turned = refusal(&|taken| taken.items.reverse());
    assert_eq!(turned, RestoreError::Order { table: "t".to_owned(), key: 1 });
    let infinite = refusal(&|taken| {
        Arc::make_mut(&mut taken.config).sampler = SelectorKind::Prioritized { exponent: 1.0 };
        taken.items[1].priority = f64::INFINITY;
    });
    assert!(infinite.to_string().starts_with("table \"t\", item 1: the priority is infinite"), "{infinite}");
    let limiter = refusal(&|taken| {
        Arc::make_mut(&mut taken.config).rate_limiter =
            RateLimiterConfig { min_size_to_sample: 0, ..RateLimiterConfig::queue(1) };
    });
    assert!(limiter.to_string().contains("min_size_to_sample"), "{limiter}");
}

/// An extension that fails on calls that restoring an item must not cause.
struct FailsOnHooks(PriorityDiffusion);

impl Extension for FailsOnHooks {
    fn on_insert(&mut self, _context: &mut Context<'_>, item: ItemView<'_>) {
        assert_eq!(item.data.key, 100, "a restored item is no insert");
    }

    fn on_delete(&mut self, _context: &mut Context<'_>, _item: ItemView<'_>) {
        panic!("nothing is deleted");
    }

    fn on_restore(&mut self, item: ItemView<'_>) {
        self.0.on_restore(item);
    }

    fn on_update(&mut self, context: &mut Context<'_>, item: ItemView<'_>, previous: f64) {
        self.0.on_update(context, item, previous);
    }
}

#[test]
fn extensions_see_restored_items_without_changing_priorities() {
    let mut table = filled(TableConfig::new("t"), 0..0);
    for step in 0..5 {
        let item = data::item(step, 1.0);
        table.insert(item, Timestamp::EPOCH, &mut rng(), &mut Freed::default()).unwrap();
    }
    let taken = snapshot(&table);
    let extension = FailsOnHooks(PriorityDiffusion::new(0.5, 1, 1).unwrap());
    let config = TableConfig::new("t");
    let mut again = Table::restored(
        config,
        vec![Box::new(extension)],
        &Arc::default(),
        taken,
        &mut rng(),
        &mut Freed::default(),
    )
    .unwrap();
    let priorities = |table: &Table| table.iter().map(|view| view.priority).collect::<Vec<_>>();
    assert_eq!(priorities(&again), [1.0; 5]);
    again.update_priority(2, 8.0).unwrap();
    assert_eq!(priorities(&again), [1.0, 4.0, 8.0, 4.0, 1.0], "neighbors are known");
}
