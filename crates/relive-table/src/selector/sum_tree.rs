//! A tree of sums of weights, used to draw an index in proportion to its weight.

use relive_prefetch::prefetch_value;
use smallvec::SmallVec;

use super::MAX_SIDE_BY_SIDE;

/// The number of children per node: eight 64-bit sums fill one cache line.
const ARITY: usize = 8;

/// The number of groups in a level that probably fits into the private caches of a core.
const NEAR_GROUPS: usize = 1 << 12;

/// Siblings, which fill one cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Group([f64; ARITY]);

/// An implicit 8-ary tree of sums over an array of weights. It uses 9.2 bytes per weight.
///
/// When a sum's children change, the sum is recomputed from all of them, never adjusted by a difference. Sums therefore
/// cannot drift: the tree's state depends only on its weights, not on the changes that led to them.
///
/// The caller must keep the weights and their total finite and non-negative.
#[derive(Clone, Debug, Default)]
pub(crate) struct SumTree {
    /// `levels[0]` holds the weights, in groups of siblings. An element of `levels[n + 1]` is the sum of a group of
    /// `levels[n]`. The last level is one group. Positions beyond the weights hold 0.
    levels: Vec<Vec<Group>>,
    len: usize,
}

impl SumTree {
    /// Returns the sum of all weights.
    pub(crate) fn total(&self) -> f64 {
        self.levels.last().and_then(|top| top.first()).map_or(0.0, Group::sum)
    }

    /// Returns the weight at `index`; 0 beyond the end.
    pub(crate) fn weight(&self, index: usize) -> f64 {
        let groups = self.levels.first();
        groups.and_then(|groups| groups.get(index / ARITY)).map_or(0.0, |group| group.0[index % ARITY])
    }

    /// Appends a weight at index `len`.
    pub(crate) fn push(&mut self, weight: f64) {
        if self.len == self.levels.first().map_or(0, |groups| groups.len() * ARITY) {
            self.grow();
        }
        self.len += 1;
        self.set(self.len - 1, weight);
    }

    /// Removes the last weight.
    pub(crate) fn pop(&mut self) {
        if self.len > 0 {
            self.set(self.len - 1, 0.0);
            self.len -= 1;
        }
    }

    /// Replaces the weight at `index`, which must be below `len`, and updates every sum above it.
    pub(crate) fn set(&mut self, index: usize, weight: f64) {
        let mut index = index;
        let mut value = weight;
        for groups in &mut self.levels {
            let group = &mut groups[index / ARITY];
            group.0[index % ARITY] = value;
            value = group.sum();
            index /= ARITY;
        }
    }

    /// Calls [`set`](Self::set) for each index and weight of `weights`. For a repeated index, the last weight counts.
    ///
    /// A sum to which several weights contribute is computed only once, and additions in the same level are
    /// independent, whereas repeated calls to `set` compute one sum after another.
    pub(crate) fn set_many(&mut self, weights: impl Iterator<Item = (usize, f64)>) {
        let mut changed: SmallVec<[usize; MAX_SIDE_BY_SIDE]> = SmallVec::new();
        let Some((leaves, above)) = self.levels.split_first_mut() else { return };
        for (index, weight) in weights {
            leaves[index / ARITY].0[index % ARITY] = weight;
            changed.push(index / ARITY);
        }
        let mut below = leaves;
        for groups in above {
            if below.len() <= changed.len() {
                changed.clear();
                changed.extend(0..below.len());
            }
            for index in &mut changed {
                groups[*index / ARITY].0[*index % ARITY] = below[*index].sum();
                *index /= ARITY;
            }
            below = groups;
        }
    }

    /// Returns the index at which the running sum of the weights exceeds `target`, or `None` if the total is 0. The
    /// weight at this index is always positive.
    ///
    /// A uniform target in [0, total) finds each index with probability weight / total. Rounding, including that of the
    /// target up to the total, moves the border between two indices only by a few units in the last place, and never
    /// selects an index with weight 0.
    pub(crate) fn find(&self, target: f64) -> Option<usize> {
        if self.total() == 0.0 {
            return None;
        }
        let mut descents = [Descent::to(target)];
        self.find_all(&mut descents);
        Some(descents[0].index)
    }

    /// Calls [`find`](Self::find) for each target, if the total is not 0. All targets descend one level before any of
    /// them descends further, so that their memory latencies overlap.
    pub(crate) fn find_all(&self, descents: &mut [Descent]) {
        for groups in self.levels.iter().rev() {
            if groups.len() > NEAR_GROUPS {
                descents.iter().filter_map(|descent| groups.get(descent.index)).for_each(prefetch_value);
            }
            for descent in &mut *descents {
                if let Some(group) = groups.get(descent.index) {
                    descent.enter(group);
                }
            }
        }
    }

    /// Adds room for one more group of weights, and for the sums above it.
    fn grow(&mut self) {
        let mut level = 0;
        loop {
            match self.levels.get_mut(level) {
                None => return self.add_top(level),
                Some(groups) => groups.push(Group::default()),
            }
            let groups = self.levels[level].len();
            let parents = self.levels.get(level + 1).map_or(0, |above| above.len() * ARITY);
            if groups == 1 || groups <= parents {
                return;
            }
            level += 1;
        }
    }

    /// Adds a level of one group above a level of at most two groups.
    fn add_top(&mut self, level: usize) {
        let mut top = Group::default();
        if let Some(below) = level.checked_sub(1).and_then(|below| self.levels.get(below)) {
            for (sum, group) in top.0.iter_mut().zip(below) {
                *sum = group.sum();
            }
        }
        self.levels.push(vec![top]);
    }
}

impl Group {
    /// Adds from left to right, like [`Descent::enter`], so that both round the same way.
    fn sum(&self) -> f64 {
        self.0.iter().sum()
    }
}

/// A descent from the root to the index at which the running sum of the weights exceeds a target.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Descent {
    /// The group to enter next or, at the end of the descent, the index.
    index: usize,
    /// The part of the target that remains within that group.
    target: f64,
}

impl Descent {
    /// Starts a descent.
    pub(crate) fn to(target: f64) -> Self {
        Self { index: 0, target }
    }

    /// Returns the index that the descent has reached.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// Descends to the child at which the running sum exceeds the target.
    ///
    /// Running sums never decrease, so the child's number equals the number of sums that the target has reached. They
    /// are counted without branches, which a processor could not predict.
    fn enter(&mut self, group: &Group) {
        let (mut sum, mut before, mut child) = (0.0, 0.0, 0);
        for &weight in &group.0 {
            sum += weight;
            let reached = self.target >= sum;
            before = if reached { sum } else { before };
            child += usize::from(reached);
        }
        self.target -= before;
        if child == ARITY {
            // Because of rounding, the target may not be below the last sum. In that case, the last child with a
            // positive weight is chosen.
            child = group.0.iter().rposition(|&weight| weight > 0.0).unwrap_or(0);
            self.target = group.0[child];
        }
        self.index = self.index * ARITY + child;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree_of(weights: &[f64]) -> SumTree {
        let mut tree = SumTree::default();
        weights.iter().for_each(|&weight| tree.push(weight));
        tree
    }

    #[test]
    fn every_index_is_found_in_its_own_interval() {
        let weights: Vec<f64> = (0..1000).map(f64::from).collect();
        let tree = tree_of(&weights);
        let mut start = 0.0;
        for (index, weight) in weights.iter().enumerate().skip(1) {
            assert_eq!(tree.find(start), Some(index));
            assert_eq!(tree.find(start + weight - 0.5), Some(index));
            start += weight;
        }
        assert_eq!(tree.total(), start);
    }

    #[test]
    fn node_sums_stay_exact_while_growing_and_shrinking() {
        let mut tree = SumTree::default();
        for round in 0..3 {
            for index in 0..700 {
                tree.push(f64::from(index % 7) + f64::from(round));
            }
            let doubled: Vec<f64> = (0..tree.len).map(|index| tree.weight(index) * 2.0).collect();
            for (index, &weight) in doubled.iter().enumerate() {
                tree.set(index, weight);
            }
            assert_eq!(tree.total(), doubled.iter().sum::<f64>());
            (0..650).for_each(|_| tree.pop());
            assert_eq!(tree.total(), doubled[..tree.len].iter().sum::<f64>());
        }
    }

    #[test]
    fn batched_updates_equal_sequential_updates() {
        for len in [0, 1, 8, 9, 700, 5000] {
            let mut one = tree_of(&vec![1.0; len]);
            let mut many = one.clone();
            let changes: Vec<(usize, f64)> =
                (0..300.min(len * 2)).map(|n| (n * n * 31 % len, 0.1 * n as f64)).collect();
            for part in changes.chunks(70) {
                part.iter().for_each(|&(index, weight)| one.set(index, weight));
                many.set_many(part.iter().copied());
                assert_eq!(one.total(), many.total());
            }
            let sums =
                |tree: &SumTree| tree.levels.iter().flatten().flat_map(|group| group.0).collect::<Vec<_>>();
            assert_eq!(sums(&one), sums(&many));
        }
    }

    #[test]
    fn without_a_positive_weight_no_index_is_found() {
        assert_eq!(SumTree::default().find(0.0), None);
        assert_eq!(tree_of(&[0.0; 20]).find(0.0), None);
    }

    #[test]
    fn a_target_at_or_beyond_the_total_finds_the_last_positive_weight() {
        let mut weights = vec![0.0; 100];
        weights[41] = 0.1;
        weights[42] = 0.2;
        let tree = tree_of(&weights);
        assert_eq!(tree.find(tree.total()), Some(42));
        assert_eq!(tree.find(f64::MAX), Some(42));
    }

    #[test]
    fn huge_and_tiny_weights_coexist() {
        let mut tree = tree_of(&[1e300, 1e-300, 0.0]);
        tree.set(0, 0.0);
        assert_eq!(tree.total(), 1e-300, "no rounding error of the huge weight remains");
        assert_eq!(tree.find(0.0), Some(1));
    }
}
