//! The limits of this crate, each with the reason for its value.

/// The limit on the size of a [`Buffer`](crate::Buffer), 16 GiB: a larger size indicates a mistake in a spec.
pub const MAX_BUFFER_BYTES: usize = 1 << 34;

/// The limit on the environments that are stepped together. A higher number indicates a mistake, because one step of
/// this many environments already takes a second.
pub const MAX_ENVIRONMENTS: usize = 1 << 24;

/// The limit on stacked frames, and on repeats of an action.
pub const MAX_REPEATS: usize = 1 << 16;

/// The limit on the rows, columns, bits, distractors or links of a bsuite environment; bsuite's own settings go up to
/// 100.
pub const MAX_BSUITE_SIZE: u32 = 4096;
