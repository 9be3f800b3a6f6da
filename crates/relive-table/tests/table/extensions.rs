//! Tests that extensions run inside the operation, and that their requests are carried out.

use std::sync::{Arc, Mutex};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use relive_table::extension::DiffusionError;
use relive_table::{
    Context, Effect, Extension, Freed, InsertOnFirstSample, ItemView, PriorityDiffusion, SelectorKind,
    Statistics, Table, TableConfig, Timestamp,
};
use relive_testkit::data;

struct Fixture {
    table: Table,
    rng: Xoshiro256PlusPlus,
    freed: Freed,
}

impl Fixture {
    fn new(config: TableConfig, extension: impl Extension + 'static) -> Self {
        let table = Table::new(config, vec![Box::new(extension)]).expect("tests configure tables validly");
        Self { table, rng: Xoshiro256PlusPlus::seed_from_u64(1), freed: Freed::default() }
    }

    fn add(&mut self, key: u64, priority: f64) {
        let item = data::item(key, priority);
        self.table
            .insert(item, Timestamp::EPOCH, &mut self.rng, &mut self.freed)
            .expect("added priorities are valid");
    }

    fn sample(&mut self) -> u64 {
        self.table.sample(&mut self.rng, &mut self.freed).expect("no limiter blocks").item.key
    }

    fn priorities(&self) -> Vec<f64> {
        self.table.iter().map(|view| view.priority).collect()
    }
}

/// Records which hooks ran, and the state of the table during each hook.
struct HookRecorder(Arc<Mutex<Vec<String>>>);

impl HookRecorder {
    fn note(&self, hook: &str, context: &Context<'_>, item: ItemView<'_>) {
        let key = item.data.key;
        let there = if context.get(key).is_some() { "there" } else { "gone" };
        self.0
            .lock()
            .expect("no hook panics")
            .push(format!("{hook} {key} {} {} {there}", item.priority, item.times_sampled));
    }
}

impl Extension for HookRecorder {
    fn on_insert(&mut self, context: &mut Context<'_>, item: ItemView<'_>) {
        self.note("insert", context, item);
    }
    fn on_update(&mut self, context: &mut Context<'_>, item: ItemView<'_>, previous: f64) {
        self.note(&format!("update from {previous} of"), context, item);
    }
    fn on_sample(&mut self, context: &mut Context<'_>, item: ItemView<'_>) {
        self.note("sample", context, item);
    }
    fn on_delete(&mut self, context: &mut Context<'_>, item: ItemView<'_>) {
        self.note("delete", context, item);
    }
    fn on_reset(&mut self) {
        self.0.lock().expect("no hook panics").push("reset".to_owned());
    }
}

#[test]
fn hooks_run_in_the_order_of_events() {
    let diary = Arc::new(Mutex::new(Vec::new()));
    let config = TableConfig::new("t").sampler(SelectorKind::Fifo).max_size(1).max_times_sampled(1);
    let mut fixture = Fixture::new(config, HookRecorder(Arc::clone(&diary)));
    fixture.add(1, 0.5);
    fixture.add(2, 1.5);
    fixture.add(2, 2.5);
    fixture.sample();
    fixture.add(3, 1.0);
    fixture.table.reset(&mut fixture.freed);
    let expected = [
        "insert 1 0.5 0 there",
        "insert 2 1.5 0 there",
        "delete 1 0.5 0 gone",
        "update from 1.5 of 2 2.5 0 there",
        "sample 2 2.5 1 there",
        "delete 2 2.5 1 gone",
        "insert 3 1 0 there",
        "reset",
    ];
    assert_eq!(*diary.lock().unwrap(), expected);
}

#[test]
fn the_first_sample_requests_a_copy_to_another_table() {
    let config = TableConfig::new("queue").sampler(SelectorKind::Fifo);
    let mut fixture = Fixture::new(config, InsertOnFirstSample::new("replay"));
    fixture.add(7, 2.5);
    assert_eq!((fixture.sample(), fixture.sample()), (7, 7));
    let effects = fixture.table.drain_effects();
    let [Effect::InsertInto { table, item }] = effects.as_slice() else {
        panic!("one copy was expected: {effects:?}");
    };
    assert_eq!((table.as_ref(), item.key, item.priority, item.times_sampled), ("replay", 7, 2.5, 1));
    let original = fixture.table.get(7).unwrap().data.trajectory.chunks();
    assert!(Arc::ptr_eq(&original[0], &item.trajectory.chunks()[0]), "the data is shared");
    assert!(fixture.table.drain_effects().is_empty());
}

#[test]
fn statistics_count_how_items_ended() {
    let config = TableConfig::new("t").sampler(SelectorKind::Fifo).max_size(2);
    let mut fixture = Fixture::new(config, Statistics::default());
    let metric = |fixture: &Fixture, name| {
        let metrics = fixture.table.metrics();
        metrics.iter().find(|metric| metric.name == name).unwrap().value
    };
    assert!(metric(&fixture, "sampled_priority_mean").is_nan(), "there is no mean of nothing");
    fixture.add(1, 1.0);
    fixture.add(2, 3.0);
    fixture.sample();
    fixture.sample();
    fixture.add(3, 5.0);
    fixture.table.delete(2, &mut fixture.freed);
    fixture.table.update_priority(3, 6.0).unwrap();
    for (name, value) in [
        ("inserts", 3.0),
        ("updates", 1.0),
        ("samples", 2.0),
        ("deletes", 2.0),
        ("inserted_priority_mean", 3.0),
        ("sampled_priority_mean", 1.0),
        ("deleted_unsampled", 1.0),
        ("times_sampled_at_deletion_mean", 1.0),
    ] {
        assert_eq!(metric(&fixture, name), value, "{name}");
    }
    fixture.table.reset(&mut fixture.freed);
    assert_eq!(metric(&fixture, "inserts"), 0.0);
}

#[test]
fn an_infinite_priority_does_not_spoil_the_means_of_statistics() {
    let config = TableConfig::new("t").sampler(SelectorKind::MaxHeap).max_size(3);
    let mut fixture = Fixture::new(config, Statistics::default());
    for (key, priority) in [(1, f64::INFINITY), (2, 3.0), (3, 5.0)] {
        fixture.add(key, priority);
    }
    let metrics = fixture.table.metrics();
    let metric = |name| metrics.iter().find(|metric| metric.name == name).unwrap().value;
    assert_eq!([metric("inserts"), metric("inserted_priority_mean")], [3.0, 4.0]);
}

#[test]
fn a_high_priority_spreads_to_neighboring_steps() {
    let diffusion = PriorityDiffusion::new(0.5, 2, 1).unwrap();
    let config = TableConfig::new("t").sampler(SelectorKind::Prioritized { exponent: 1.0 });
    let mut fixture = Fixture::new(config, diffusion);
    (0..5).for_each(|key| fixture.add(key, 1.0));
    assert_eq!(fixture.priorities(), [1.0; 5], "half of 1 raises nothing");
    assert_eq!(fixture.table.update_priority(3, 8.0), Ok(true));
    assert_eq!(fixture.priorities(), [1.0, 2.0, 4.0, 8.0, 4.0]);
    assert!(fixture.table.delete(2, &mut fixture.freed));
    assert_eq!(fixture.table.update_priority(3, 16.0), Ok(true));
    assert_eq!(fixture.priorities(), [4.0, 8.0, 16.0, 8.0], "the gap closes");
    fixture.add(5, 100.0);
    assert_eq!(fixture.priorities(), [4.0, 8.0, 25.0, 50.0, 100.0], "inserts spread too");
    let mut seen: Vec<u64> = (0..200).map(|_| fixture.sample()).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, [0, 1, 3, 4, 5], "the selector knows the raised priorities");
}

#[test]
fn priorities_stay_within_their_episode() {
    let diffusion = PriorityDiffusion::new(1.0, 9, 9).unwrap();
    let mut fixture = Fixture::new(TableConfig::new("t"), diffusion);
    for key in 0..4_u64 {
        let trajectory = data::trajectory(&[data::chunk(key, key / 2, 0, 1)]);
        let item = relive_table::NewItem { trajectory, ..data::item(key, 1.0) };
        fixture.table.insert(item, Timestamp::EPOCH, &mut fixture.rng, &mut fixture.freed).unwrap();
    }
    assert_eq!(fixture.table.update_priority(2, 4.0), Ok(true));
    assert_eq!(fixture.priorities(), [1.0, 1.0, 4.0, 4.0]);
}

#[test]
fn a_diffusion_out_of_bounds_is_refused() {
    let actual = 1.5;
    assert_eq!(PriorityDiffusion::new(actual, 1, 1).unwrap_err(), DiffusionError::Decay { actual });
    assert!(PriorityDiffusion::new(f64::NAN, 1, 1).is_err());
    let many = PriorityDiffusion::new(0.5, 1, 1025).unwrap_err();
    assert_eq!(
        many.to_string(),
        "a priority diffusion can reach at most 1024 neighbors on either side, got 1025"
    );
}

/// Requests a priority that every prioritized selector refuses, and a priority for an item that does not exist.
struct InvalidRequests;

impl Extension for InvalidRequests {
    fn on_insert(&mut self, context: &mut Context<'_>, item: ItemView<'_>) {
        context.update_priority(item.data.key, -1.0);
        context.update_priority(item.data.key + 1, 1.0);
    }
}

#[test]
fn an_impossible_extension_request_is_counted_and_ignored() {
    let config = TableConfig::new("t").sampler(SelectorKind::Prioritized { exponent: 1.0 });
    let mut fixture = Fixture::new(config, InvalidRequests);
    fixture.add(1, 2.0);
    assert_eq!((fixture.priorities(), fixture.table.info().num_refused_requests), (vec![2.0], 1));
}
