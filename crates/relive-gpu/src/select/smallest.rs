//! The candidates with the smallest keys.

/// An index with its key. Candidates are ordered by key, then by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Candidate {
    pub(crate) key: u64,
    pub(crate) index: u64,
    /// The mass of the index in units of the grid, set once it is selected.
    pub(crate) units: u64,
}

/// Keeps the k smallest candidates; they must be offered in ascending order of their indices.
#[derive(Debug)]
pub(crate) struct Smallest {
    count: usize,
    kept: Vec<Candidate>,
    ceiling: u64,
}

impl Smallest {
    pub(crate) fn new(count: usize) -> Self {
        Self { count, kept: Vec::new(), ceiling: u64::MAX }
    }

    /// Keys above this are not among the smallest.
    #[inline(always)]
    pub(crate) fn ceiling(&self) -> u64 {
        self.ceiling
    }

    #[inline(always)]
    pub(crate) fn offer(&mut self, key: u64, index: u64) {
        if key <= self.ceiling {
            self.keep(Candidate { key, index, units: 0 });
        }
    }

    #[cold]
    fn keep(&mut self, candidate: Candidate) {
        self.kept.push(candidate);
        // Pruning at twice `count` takes amortized constant time per candidate.
        if self.kept.len() >= 2 * self.count.max(64) {
            self.reduce();
        }
    }

    fn reduce(&mut self) {
        if self.kept.len() > self.count {
            // Later candidates have higher indices, so they lose ties.
            self.kept.select_nth_unstable(self.count - 1);
            self.kept.truncate(self.count);
            self.ceiling = self.kept[self.count - 1].key.saturating_sub(1);
        }
    }

    pub(crate) fn finish(mut self) -> Vec<Candidate> {
        self.reduce();
        self.kept
    }
}

/// Sorts the candidates, and keeps the first `count`.
pub(crate) fn first(candidates: &mut Vec<Candidate>, count: usize) {
    if candidates.len() > count && count > 0 {
        candidates.select_nth_unstable(count - 1);
        candidates.truncate(count);
    }
    candidates.sort_unstable();
}
