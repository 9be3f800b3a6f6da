//! Slicing patterns: how an item's columns refer to its chunks. Most items of a writer have the same pattern and share
//! it.

use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use foldhash::fast::FixedState;

use super::slice::{ColumnSpan, Slice};

/// The slices of all columns. Offsets in the item's first chunk are relative to the item's first row; negative offsets
/// wrap around. Small columns share a chunk of many steps, while large columns have a chunk for each step.
#[derive(Clone, Debug)]
pub(super) enum Pattern {
    /// A pattern with one column of one slice, which needs no heap memory.
    One {
        span: ColumnSpan,
        slice: Slice,
    },
    Several(Arc<Slices>),
}

#[derive(Debug)]
pub(super) struct Slices {
    /// A hash of the other fields, which differs for most unequal patterns.
    hash: u64,
    columns: Box<[ColumnSpan]>,
    slices: Box<[Slice]>,
}

/// Returns the row to which offsets in a chunk are relative, in an item whose first row is `first`.
pub(super) fn first_row(first: u32, chunk: u32) -> u32 {
    if chunk == 0 { first } else { 0 }
}

impl Pattern {
    pub(super) fn columns(&self) -> &[ColumnSpan] {
        match self {
            Self::One { span, .. } => std::slice::from_ref(span),
            Self::Several(several) => &several.columns,
        }
    }

    pub(super) fn slices(&self) -> &[Slice] {
        match self {
            Self::One { slice, .. } => std::slice::from_ref(slice),
            Self::Several(several) => &several.slices,
        }
    }
}

impl Pattern {
    /// Returns a hash of the pattern.
    pub(super) fn hash(&self) -> u64 {
        match self {
            Self::One { span, slice } => {
                u64::from(slice.length) << 32 | u64::from(slice.index) << 1 | u64::from(span.squeeze)
            }
            Self::Several(several) => several.hash,
        }
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Several(one), Self::Several(other)) => Arc::ptr_eq(one, other) || one.is(other),
            (Self::One { span, slice }, Self::One { span: other_span, slice: other }) => {
                (span, slice) == (other_span, other)
            }
            _ => false,
        }
    }
}

impl Slices {
    fn is(&self, other: &Self) -> bool {
        self.hash == other.hash && self.columns == other.columns && self.slices == other.slices
    }
}

/// The number of remembered patterns. If a sequence is added in one call, each window of it has its own pattern.
const RECENT: usize = 16;

/// Recent patterns.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    recent: Vec<Arc<Slices>>,
    /// The position of the pattern that was found last. The next pattern is usually the same one or the one after it.
    last: usize,
    hasher: FixedState,
}

impl Patterns {
    /// Returns the pattern with the given columns and slices, whose offsets in the first chunk are relative to `first`.
    pub(super) fn of(&mut self, columns: &[ColumnSpan], slices: &[Slice], first: u32) -> Pattern {
        let relative = |slice: &Slice| Slice {
            offset: slice.offset.wrapping_sub(first_row(first, slice.chunk)),
            ..*slice
        };
        if let ([span], [slice]) = (columns, slices) {
            return Pattern::One { span: *span, slice: relative(slice) };
        }
        let is_it = |known: &Arc<Slices>| {
            known.slices.iter().copied().eq(slices.iter().map(relative)) && *known.columns == *columns
        };
        let likely = [self.last, self.last + 1];
        if let Some(at) = likely.into_iter().find(|at| self.recent.get(*at).is_some_and(is_it)) {
            return self.known(at);
        }
        let mut hasher = self.hasher.build_hasher();
        columns.hash(&mut hasher);
        slices.iter().map(relative).for_each(|slice| slice.hash(&mut hasher));
        let hash = hasher.finish();
        let found = self.recent.iter().position(|known| known.hash == hash && is_it(known));
        let at = found.unwrap_or_else(|| {
            let slices = slices.iter().map(relative).collect();
            self.remember(Arc::new(Slices { hash, columns: columns.into(), slices }))
        });
        self.known(at)
    }

    fn known(&mut self, at: usize) -> Pattern {
        self.last = at;
        match self.recent.get(at) {
            Some(known) => Pattern::Several(Arc::clone(known)),
            None => unreachable!("pattern {at} of {} was just found", self.recent.len()),
        }
    }

    /// Stores a pattern after the last one found, and replaces an older pattern if there are many. Returns its
    /// position.
    fn remember(&mut self, new: Arc<Slices>) -> usize {
        if self.recent.len() < RECENT {
            self.recent.push(new);
            return self.recent.len() - 1;
        }
        let at = (self.last + 1) % RECENT;
        if let Some(place) = self.recent.get_mut(at) {
            *place = new;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(offset: u32, length: u32) -> Slice {
        Slice { chunk: 0, offset, length, index: 0 }
    }

    fn of(patterns: &mut Patterns, slices: [Slice; 2]) -> Pattern {
        let span = |slices_end| ColumnSpan { slices_end, squeeze: false };
        patterns.of(&[span(1), span(2)], &slices, slices[0].offset)
    }

    fn is_shared(some: &Pattern, other: &Pattern) -> bool {
        std::ptr::eq(some.slices(), other.slices())
    }

    #[test]
    fn equally_shaped_trajectories_share_a_pattern_at_any_offset() {
        let mut patterns = Patterns::default();
        let first = of(&mut patterns, [slice(3, 2), slice(1, 2)]);
        assert_eq!(first.slices()[1].offset.wrapping_add(3), 1);
        for length in (3..).take(RECENT - 1) {
            assert_ne!(of(&mut patterns, [slice(3, length), slice(1, 2)]), first);
            assert!(is_shared(&of(&mut patterns, [slice(9, 2), slice(7, 2)]), &first));
        }
        let apart =
            |offset| of(&mut Patterns::default(), [slice(offset, 1), Slice { chunk: 1, ..slice(0, 1) }]);
        assert!(apart(3) == apart(4), "the rows of other chunks have their own numbers");
        let other = of(&mut Patterns::default(), [slice(2, 2), slice(0, 2)]);
        assert!(other == first && !is_shared(&other, &first));
        for length in 100..200 {
            of(&mut patterns, [slice(0, length), slice(0, 2)]);
        }
        assert_eq!(patterns.recent.len(), RECENT);
        let again = of(&mut patterns, [slice(3, 2), slice(1, 2)]);
        assert!(again == first && !is_shared(&again, &first), "it was forgotten");
    }
}
