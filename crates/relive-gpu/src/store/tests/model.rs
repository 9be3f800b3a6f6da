//! A model of a store that checks every row for every decision.

use std::collections::VecDeque;

use super::CAPACITY;
use crate::store::{Removal, State, Store};

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Row {
    pub(super) selectable: bool,
    pub(super) writing: bool,
    pub(super) generation: u64,
    pub(super) length: u64,
    pub(super) weight: f32,
    pub(super) inserted: u64,
    pub(super) sampled: u64,
    pub(super) pins: u64,
}

pub(super) struct Model {
    pub(super) rows: Vec<Row>,
    pub(super) free: VecDeque<u64>,
    pub(super) committed: u64,
    pub(super) removal: Removal,
    pub(super) max_selectable: u64,
}

impl Model {
    pub(super) fn new(removal: Removal, max_selectable: Option<u64>) -> Self {
        Self {
            rows: vec![Row::default(); usize::try_from(CAPACITY).unwrap()],
            free: (0..CAPACITY).collect(),
            committed: 0,
            removal,
            max_selectable: max_selectable.unwrap_or(u64::MAX),
        }
    }

    pub(super) fn row(&mut self, index: u64) -> &mut Row {
        &mut self.rows[usize::try_from(index).unwrap()]
    }

    pub(super) fn selectable(&self) -> u64 {
        self.rows.iter().filter(|row| row.selectable).count() as u64
    }

    pub(super) fn release(&mut self, index: u64) {
        let row = self.row(index);
        assert!(row.selectable && row.pins == 0, "row {index} was evicted: {row:?}");
        *row = Row { generation: row.generation, ..Row::default() };
        self.free.push_back(index);
    }

    pub(super) fn exhausted(&self) -> Vec<u64> {
        let Removal::MaxTimesSampled(times) = self.removal else { return Vec::new() };
        let gone = |row: &Row| row.selectable && row.pins == 0 && row.sampled >= times;
        (0..CAPACITY).filter(|&index| gone(&self.rows[usize::try_from(index).unwrap()])).collect()
    }

    /// Evicts, from the model, the row that the store has just evicted.
    pub(super) fn evict(&mut self, store: &Store) -> bool {
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
            // The row that the store evicted; `release` checks that it was evictable.
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

    pub(super) fn allocate(&mut self, store: &Store) -> Option<u64> {
        if self.free.is_empty() {
            self.evict(store);
        }
        let index = self.free.pop_front()?;
        let row = self.row(index);
        row.writing = true;
        row.generation += 1;
        Some(index)
    }

    pub(super) fn commit(&mut self, store: &Store, index: u64, length: u64, weight: f32) {
        while self.selectable() >= self.max_selectable && self.evict(store) {}
        if matches!(self.removal, Removal::Random) {
            // If several rows were evicted at once, only the store determines the order.
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

    pub(super) fn pin(&mut self, index: u64) -> bool {
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

    pub(super) fn compare(&self, store: &Store) {
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
