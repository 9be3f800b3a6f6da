//! Random operations on a store and its model.

use std::collections::VecDeque;
use std::sync::Arc;

use proptest::prelude::*;

use super::model::{Model, Row};
use super::{CAPACITY, options, schema};
use crate::error::ErrorKind;
use crate::store::{Changed, Choose, Inserted, Pinned, Removal, Reweigh, Store, StoreOptions, Writing};

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

/// A store, its model, and the pins and rows that the test holds.
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

    /// Defects 9 and 18: a finished trajectory can be drawn until it is evicted, and the store counts such
    /// trajectories.
    #[test]
    fn every_removal_strategy_matches_the_naive_model(
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
