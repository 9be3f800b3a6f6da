//! Alignment of data in a batch.

/// The alignment of data in a batch: a cache line.
pub const ALIGNMENT: usize = 64;

/// Rounds up to a multiple of [`ALIGNMENT`].
#[must_use]
pub fn aligned(offset: usize) -> usize {
    offset.next_multiple_of(ALIGNMENT)
}
