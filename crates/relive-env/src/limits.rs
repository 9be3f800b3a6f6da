//! The limits of this crate, each with the reason for its number.

/// Most bytes of a [`Buffer`](crate::Buffer), 16 GiB: more is a mistake in a spec and not an observation.
pub const MAX_BUFFER_BYTES: usize = 1 << 34;

/// Most environments that are stepped together. A number above it is a mistake: one step of so many takes a second.
pub const MAX_ENVIRONMENTS: usize = 1 << 24;

/// Most threads that step environments together.
pub const MAX_THREADS: usize = 256;

/// Most frames that are stacked, and most times that an action is repeated.
pub const MAX_REPEATS: usize = 1 << 16;

/// Most rows, columns, bits, distractors or links that an environment of bsuite is built with; the largest of its own
/// settings is 100.
pub const MAX_BSUITE_SIZE: u32 = 4096;
