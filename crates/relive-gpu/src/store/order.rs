//! The order in which rows are removed.

use std::collections::BTreeSet;

use super::options::Removal;
use super::random::SplitMix;
use crate::bytes::{narrow, wide};

/// The selectable rows in the order of removal.
#[derive(Debug)]
pub(super) enum Order {
    /// By a key. The row with the lowest key is removed first; among rows with equal keys, the one inserted first.
    Sorted(BTreeSet<(u64, u64, u64)>, fn(&Row) -> u64),
    /// Rows in arbitrary order, with the position of each row.
    Any { rows: Vec<u64>, places: Vec<u64> },
}

/// The properties on which the order of a row may depend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) row: u64,
    pub(super) inserted: u64,
    pub(super) weight: f32,
}

/// The position of a row that is not in `Order::Any`.
const NOWHERE: u64 = u64::MAX;

/// The maximum number of random draws of a row. All of them fail only if few of many rows can be taken.
const MAX_DRAWS: usize = 32;

impl Order {
    pub(super) fn new(removal: &Removal, capacity: u64) -> Self {
        match removal {
            Removal::Fifo | Removal::MaxTimesSampled(_) | Removal::Callback(_) => {
                Self::Sorted(BTreeSet::new(), |row| row.inserted)
            }
            Removal::Lifo => Self::Sorted(BTreeSet::new(), |row| !row.inserted),
            // Weights are never negative, so their bits have the same order.
            Removal::LowestWeight => Self::Sorted(BTreeSet::new(), |row| u64::from(row.weight.to_bits())),
            Removal::Random => Self::Any { rows: Vec::new(), places: vec![NOWHERE; narrow(capacity)] },
        }
    }

    /// Returns the number of rows.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Sorted(rows, _) => wide(rows.len()),
            Self::Any { rows, .. } => wide(rows.len()),
        }
    }

    pub(super) fn insert(&mut self, row: Row) {
        match self {
            Self::Sorted(rows, key) => {
                rows.insert((key(&row), row.inserted, row.row));
            }
            Self::Any { rows, places } => {
                places[narrow(row.row)] = wide(rows.len());
                rows.push(row.row);
            }
        }
    }

    /// Removes a row. `row` must equal the inserted one, except that its weight is the one from the last `reweigh`.
    pub(super) fn remove(&mut self, row: Row) {
        match self {
            Self::Sorted(rows, key) => {
                rows.remove(&(key(&row), row.inserted, row.row));
            }
            Self::Any { rows, places } => {
                let place = std::mem::replace(&mut places[narrow(row.row)], NOWHERE);
                rows.swap_remove(narrow(place));
                if let Some(&moved) = rows.get(narrow(place)) {
                    places[narrow(moved)] = place;
                }
            }
        }
    }

    /// Records a change to a row's weight.
    pub(super) fn reweigh(&mut self, row: Row, weight: f32) {
        if let Self::Sorted(_, key) = self
            && key(&row) != key(&Row { weight, ..row })
        {
            self.remove(row);
            self.insert(Row { weight, ..row });
        }
    }

    /// Returns the first row of the order for which `taken` returns true. A random order draws rows until one is taken;
    /// after many failed draws, it tries the rows in order, starting at a random one.
    pub(super) fn first(&self, random: &mut SplitMix, mut taken: impl FnMut(u64) -> bool) -> Option<u64> {
        match self {
            Self::Sorted(rows, _) => rows.iter().map(|&(_, _, row)| row).find(|&row| taken(row)),
            Self::Any { rows, .. } if rows.is_empty() => None,
            Self::Any { rows, .. } => {
                let mut draw = || narrow(random.below(wide(rows.len())));
                let draws = MAX_DRAWS.min(rows.len());
                if let Some(row) = (1..draws).map(|_| rows[draw()]).find(|&row| taken(row)) {
                    return Some(row);
                }
                let begin = draw();
                rows[begin..].iter().chain(&rows[..begin]).copied().find(|&row| taken(row))
            }
        }
    }

    /// Returns the rows in order, if this order cannot be derived from the rows' properties.
    pub(super) fn saved(&self) -> &[u64] {
        match self {
            Self::Sorted(..) => &[],
            Self::Any { rows, .. } => rows,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn naive(rows: &[Row], removal: &Removal) -> Option<u64> {
        let by = |key: &dyn Fn(&Row) -> (f64, f64)| {
            let first = rows.iter().min_by(|a, b| key(a).partial_cmp(&key(b)).unwrap());
            first.map(|row| row.row)
        };
        #[expect(clippy::cast_precision_loss, reason = "the numbers are small")]
        match removal {
            Removal::Lifo => by(&|row| (-(row.inserted as f64), 0.0)),
            Removal::LowestWeight => by(&|row| (f64::from(row.weight), row.inserted as f64)),
            _ => by(&|row| (row.inserted as f64, 0.0)),
        }
    }

    proptest! {
        #[test]
        fn the_first_row_to_remove_matches_the_naive_model(
            changes in proptest::collection::vec((0_u64..12, 0_u8..3, 0_u8..5), 1..80), which in 0_usize..4,
        ) {
            let removals = [Removal::Fifo, Removal::Lifo, Removal::LowestWeight, Removal::MaxTimesSampled(3)];
            let removal = &removals[which];
            let mut order = Order::new(removal, 12);
            let mut rows: Vec<Row> = Vec::new();
            for (inserted, (row, change, weight)) in (0_u64..).zip(changes) {
                let weight = f32::from(weight) / 2.0;
                let found = rows.iter().position(|other| other.row == row);
                match (found, change) {
                    (None, _) => {
                        rows.push(Row { row, inserted, weight });
                        order.insert(Row { row, inserted, weight });
                    }
                    (Some(at), 0) => order.remove(rows.swap_remove(at)),
                    (Some(at), _) => {
                        order.reweigh(rows[at], weight);
                        rows[at].weight = weight;
                    }
                }
                prop_assert_eq!(order.len(), rows.len() as u64);
                prop_assert_eq!(order.first(&mut SplitMix::new(0), |_| true), naive(&rows, removal));
            }
        }

        #[test]
        fn random_removal_is_uniform_among_the_rows_that_can_be_taken(seed: u64) {
            let mut order = Order::new(&Removal::Random, 20);
            (0..20).for_each(|row| order.insert(Row { row, inserted: 0, weight: 1.0 }));
            let (mut random, mut counts) = (SplitMix::new(seed), [0; 20]);
            for _ in 0..3_000 {
                // The first ten rows are pinned.
                let row = order.first(&mut random, |row| row >= 10).unwrap();
                counts[narrow(row)] += 1;
            }
            prop_assert!(counts[10..].iter().all(|count| (200..400).contains(count)), "{counts:?}");
        }

        #[test]
        fn random_removal_finds_exactly_the_stored_rows(
            changes in proptest::collection::vec((0_u64..12, any::<bool>()), 1..80),
        ) {
            let mut order = Order::new(&Removal::Random, 12);
            let mut rows = BTreeSet::new();
            let mut random = SplitMix::new(1);
            for (row, _) in changes {
                let actual = Row { row, inserted: 0, weight: 1.0 };
                if rows.insert(row) { order.insert(actual) } else {
                    rows.remove(&row);
                    order.remove(actual);
                }
                let mut seen = BTreeSet::new();
                prop_assert_eq!(order.first(&mut random, |row| { seen.insert(row); false }), None);
                prop_assert_eq!(&seen, &rows);
            }
        }
    }

    #[test]
    fn random_is_uniform() {
        let mut order = Order::new(&Removal::Random, 10);
        (0..10).for_each(|row| order.insert(Row { row, inserted: 0, weight: 1.0 }));
        let mut random = SplitMix::new(5);
        let mut counts = [0.0_f64; 10];
        for _ in 0..10_000 {
            counts[narrow(order.first(&mut random, |_| true).unwrap())] += 1.0;
        }
        let chi2: f64 = counts.iter().map(|count| (count - 1000.0).powi(2) / 1000.0).sum();
        assert!(chi2 < 33.7, "{chi2}: above the 0.9999 quantile of 9 degrees of freedom");
    }
}
