//! Where data in a batch may begin.

/// What data in a batch is aligned to: a line of memory.
pub const ALIGNMENT: usize = 64;

/// The next multiple of [`ALIGNMENT`].
#[must_use]
pub fn aligned(offset: usize) -> usize {
    offset.next_multiple_of(ALIGNMENT)
}
