//! A capture of a table, taken in parts while the table is in use, holds the state at the start of the capture.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use relive_table::{
    Context, Extension, Freed, ItemView, NewItem, PriorityDiffusion, StoredItem, Table, TableConfig,
    TableSnapshot, Timestamp,
};
use relive_testkit::data;
use relive_testkit::table::{Op, configs, histories};

/// An action on a capture that takes place between two operations.
#[derive(Clone, Copy, Debug)]
enum Piece {
    Begin,
    Fetch(usize),
    End,
    Nothing,
}

fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    let piece = prop_oneof![
        1 => Just(Piece::Begin),
        4 => (1_usize..4).prop_map(Piece::Fetch),
        1 => Just(Piece::End),
        5 => Just(Piece::Nothing),
    ];
    vec(piece, 150)
}

/// Changes the priority of another item with every operation, so that even items that the operation does not name
/// change.
struct ChangesOtherPriorities;

impl Extension for ChangesOtherPriorities {
    fn on_sample(&mut self, context: &mut Context<'_>, item: ItemView<'_>) {
        context.update_priority(item.data.key / 2, 2.0);
    }

    fn on_delete(&mut self, context: &mut Context<'_>, item: ItemView<'_>) {
        context.update_priority(item.data.key + 1, 0.5);
    }
}

/// A running capture and its expected result.
struct RunningCapture {
    expected: TableSnapshot,
    got: TableSnapshot,
}

/// Returns everything that identifies an item. Its data is compared by address, not by value.
fn identities(items: &[StoredItem]) -> Vec<(u64, usize, u64, i32)> {
    let identity = |item: &StoredItem| {
        (item.data.sequence, Arc::as_ptr(&item.data).addr(), item.priority.to_bits(), item.times_sampled)
    };
    let mut all: Vec<_> = items.iter().map(identity).collect();
    all.sort_unstable();
    all
}

impl RunningCapture {
    fn begin(table: &mut Table) -> RunningCapture {
        let expected = table.snapshot();
        let got = table.begin_capture();
        assert_eq!(got.counters, expected.counters);
        assert!(Arc::ptr_eq(&got.config, &expected.config));
        RunningCapture { expected, got }
    }

    fn finish(mut self, table: &mut Table, piece: usize) {
        while table.fetch_captured(piece, &mut self.got.items) {}
        assert!(!table.fetch_captured(piece, &mut self.got.items), "there is nothing more");
        assert_eq!(identities(&self.got.items), identities(&self.expected.items));
        drop(table.end_capture());
        assert!(!table.fetch_captured(piece, &mut self.got.items), "no capture runs");
    }
}

fn apply(table: &mut Table, op: &Op, now: Timestamp, rng: &mut Xoshiro256PlusPlus, freed: &mut Freed) {
    match *op {
        Op::Insert { key, priority, times_sampled, ref chunks } => {
            let chunks: Vec<_> =
                chunks.iter().map(|&number| data::chunk(number.into(), (number / 3).into(), 0, 1)).collect();
            let item = NewItem { key, priority, times_sampled, trajectory: data::trajectory(&chunks) };
            // A refused priority must change nothing, including in the capture.
            let _ = table.insert(item, now, rng, freed);
        }
        Op::Sample(limit) => {
            table.sample_many(limit, rng, &mut Vec::new(), freed);
        }
        Op::Update { key, priority } => {
            let _ = table.update_priority(key, priority);
        }
        Op::UpdateMany(ref updates) => {
            let _ = table.update_priorities(updates);
        }
        Op::Delete(key) => {
            table.delete(key, freed);
        }
        Op::Change(ref change) => {
            if table.change(change).is_ok() {
                table.shrink(usize::MAX, rng, freed);
            }
        }
        Op::Reset => table.reset(freed),
    }
    freed.clear();
}

/// Alternates between operations of the history and steps of the capture.
fn follow(table: &mut Table, history: &[Op], pieces: &[Piece], seed: u64) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut freed = Freed::default();
    let mut running: Option<RunningCapture> = None;
    for ((nanos, op), piece) in (0..).zip(history).zip(pieces) {
        match (*piece, &mut running) {
            (Piece::Begin, None) => running = Some(RunningCapture::begin(table)),
            (Piece::Fetch(slots), Some(running)) => drop(table.fetch_captured(slots, &mut running.got.items)),
            (Piece::End, Some(_)) => running.take().expect("one runs").finish(table, 1),
            _ => {}
        }
        apply(table, op, Timestamp::from_nanos(nanos), &mut rng, &mut freed);
    }
    if let Some(running) = running {
        running.finish(table, 3);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_capture_reflects_the_moment_it_began(
        config in configs(),
        history in histories(),
        pieces in pieces(),
        meddle: bool,
        seed: u64,
    ) {
        let extensions: Vec<Box<dyn Extension>> = if meddle { vec![Box::new(ChangesOtherPriorities)] } else { Vec::new() };
        follow(&mut Table::new(config, extensions).unwrap(), &history, &pieces, seed);
    }

    #[test]
    fn a_capture_does_not_change_the_table(config in configs(), history in histories(), seed: u64) {
        let states = [false, true].map(|captured| {
            let mut table = Table::new(config.clone(), Vec::new()).unwrap();
            let pieces = [Piece::Fetch(2), Piece::Begin, Piece::Nothing, Piece::Fetch(1), Piece::End];
            let pieces: Vec<_> = pieces.into_iter().cycle().take(history.len()).collect();
            follow(&mut table, &history, if captured { &pieces } else { &[Piece::Nothing; 150] }, seed);
            let items = table.snapshot().items;
            let actual = items.iter().map(|item| (item.data.key, item.data.sequence, item.priority.to_bits()));
            (actual.collect::<Vec<_>>(), table.snapshot().counters)
        });
        prop_assert_eq!(&states[0], &states[1]);
    }
}

fn filled(items: u64) -> (Table, Xoshiro256PlusPlus) {
    let mut table = Table::new(TableConfig::new("t"), Vec::new()).expect("the configuration is valid");
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(2);
    for key in 0..items {
        table
            .insert(data::item(key, 1.0), Timestamp::EPOCH, &mut rng, &mut Freed::default())
            .expect("1 is a priority");
    }
    (table, rng)
}

#[test]
fn an_abandoned_capture_leaves_nothing_behind() {
    let (mut table, _) = filled(10);
    let first = table.begin_capture();
    table.reset(&mut Freed::default());
    assert!(first.items.is_empty());
    assert!(table.end_capture().is_some());
    assert!(table.end_capture().is_none());
    let running = RunningCapture::begin(&mut table);
    running.finish(&mut table, 5);
}

#[test]
fn items_survive_a_reset_while_a_capture_holds_them() {
    let (mut table, _) = filled(3);
    let item = Arc::downgrade(table.get(2).unwrap().data);
    let mut captured = table.begin_capture();
    table.reset(&mut Freed::default());
    assert!(item.upgrade().is_some(), "the capture is still to fetch it");
    while table.fetch_captured(1, &mut captured.items) {}
    drop(table.end_capture());
    assert_eq!(captured.items.len(), 3);
    drop(captured);
    assert!(item.upgrade().is_none());
}

#[test]
fn a_capture_keeps_each_changed_item_once() {
    let (mut table, mut rng) = filled(2);
    let running = RunningCapture::begin(&mut table);
    for round in 0..100 {
        table.update_priority(1, f64::from(round)).unwrap();
        table.sample(&mut rng, &mut Freed::default()).unwrap();
    }
    table.delete(1, &mut Freed::default());
    table.insert(data::item(1, 9.0), Timestamp::EPOCH, &mut rng, &mut Freed::default()).unwrap();
    running.finish(&mut table, 1);
}

#[test]
fn priority_diffusion_does_not_change_a_running_capture() {
    let diffusion = PriorityDiffusion::new(0.5, 3, 3).unwrap();
    let mut table = Table::new(TableConfig::new("t"), vec![Box::new(diffusion)]).unwrap();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(2);
    for key in 0..8 {
        table.insert(data::item(key, 1.0), Timestamp::EPOCH, &mut rng, &mut Freed::default()).unwrap();
    }
    let running = RunningCapture::begin(&mut table);
    table.update_priority(4, 100.0).unwrap();
    assert_eq!(table.get(5).unwrap().priority, 50.0, "the neighbor has changed");
    running.finish(&mut table, 1);
}
