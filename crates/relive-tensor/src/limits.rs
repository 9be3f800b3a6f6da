//! Limits on untrusted shapes, chunks and trajectories, each with its reason.

/// The largest number of dimensions of a tensor. This is TensorFlow's limit, so any tensor from a TensorFlow client is
/// accepted.
pub const MAX_RANK: usize = 254;

/// The largest size of a chunk's frame, and of its decoded content, in bytes: 2 GiB - 1, protobuf's limit for a
/// message.
pub const MAX_CHUNK_BYTES: u64 = 0x7fff_ffff;

/// The largest number of columns in one chunk. Writers combine small columns; dm-reverb's older writer combines all
/// leaves of a step. Steps with tens of thousands of leaves do not occur.
pub const MAX_CHUNK_COLUMNS: usize = 65_536;

/// The largest decoded size of an item with all its columns: 32 GiB. An item is small on the wire and may refer to the
/// same chunk many times; without a limit, one message could make its reader allocate petabytes.
pub const MAX_TRAJECTORY_BYTES: u64 = 1 << 35;

/// The largest cell that a [`Chunker`](crate::Chunker) accepts, 1 GiB: together with [`CHUNKER_CUT_BYTES`], this limit
/// keeps every chunk below [`MAX_CHUNK_BYTES`], even with incompressible data.
pub const MAX_CELL_BYTES: u64 = 1 << 30;

/// The size in bytes at which a [`Chunker`](crate::Chunker) cuts its chunk early: 512 MiB.
pub const CHUNKER_CUT_BYTES: u64 = 1 << 29;

/// The largest size of a chunk that exceeds the tuned length because no item was created in the meantime: 32 KiB. An
/// item that uses one of a chunk's steps keeps all of its steps alive, and larger chunks are no cheaper per byte.
pub const PACED_CHUNK_BYTES: u64 = 1 << 15;

/// The number of bytes that dm-reverb counts per string element in addition to its characters, so that
/// `data_uncompressed_size` is the same on both sides.
pub const STRING_ELEMENT_BYTES: u64 = 24;
