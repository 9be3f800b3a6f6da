//! The limits that untrusted shapes, chunks and trajectories are held to, each with the reason for its number.

/// Most dimensions of a tensor. TensorFlow's own limit, so that whatever a TensorFlow client can make fits.
pub const MAX_RANK: usize = 254;

/// Most bytes of a chunk's frame, and of its content once decoded: 2 GiB - 1, the limit of a protobuf message.
pub const MAX_CHUNK_BYTES: u64 = 0x7fff_ffff;

/// Most columns in one chunk. Writers put small columns there together, dm-reverb's older one all leaves of a step;
/// steps with tens of thousands of leaves do not occur.
pub const MAX_CHUNK_COLUMNS: usize = 65_536;

/// Most bytes of an item once decoded, all columns together, 32 GiB. An item is small on the wire and may name the same
/// chunk many times over; without a limit, one message could ask its reader for petabytes.
pub const MAX_TRAJECTORY_BYTES: u64 = 1 << 35;

/// Most bytes of one cell that a [`Chunker`](crate::Chunker) takes, 1 GiB: with
/// [`CHUNKER_CUT_BYTES`] it keeps every chunk, even of incompressible data, below [`MAX_CHUNK_BYTES`].
pub const MAX_CELL_BYTES: u64 = 1 << 30;

/// A [`Chunker`](crate::Chunker) cuts its chunk early once it holds this many bytes, 512 MiB.
pub const CHUNKER_CUT_BYTES: u64 = 1 << 29;

/// Most bytes of a chunk that got longer than the tuner asked for because no item was made meanwhile, 32 KiB: an item
/// that takes one of its steps keeps all of them, and larger chunks cost no less for a byte.
pub const PACED_CHUNK_BYTES: u64 = 1 << 15;

/// Memory that dm-reverb counts per string element besides its characters, in bytes. It makes
/// `data_uncompressed_size` the same number on both sides.
pub const STRING_ELEMENT_BYTES: u64 = 24;
