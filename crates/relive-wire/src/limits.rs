//! Bounds on what a peer may send, each with the reason for its number.

/// Largest message accepted: dm-reverb's writers cut requests at 40 MiB but never split a chunk, so one message can
/// be one very large chunk. Beyond 1 GiB the writer should use shorter chunks.
pub const MAX_MESSAGE_BYTES: usize = 1 << 30;

/// Writers cut an insert request once its chunks reach this many bytes, as dm-reverb's writers do.
pub const INSERT_REQUEST_BYTES: usize = 40 << 20;

/// A sample response is sent once its chunks exceed this many bytes, as dm-reverb's server does.
pub const SAMPLE_RESPONSE_BYTES: usize = 2 << 20;

/// A batch of samples taken from a table ends once its chunks reach this many bytes, as in dm-reverb.
pub const SAMPLE_BATCH_BYTES: usize = 1 << 20;

/// Size of the batch before the first on a sample stream; each batch may be twice as large as the one before.
pub const SAMPLE_BATCH_BASE: usize = 64;

/// Columns of one item: far above any trajectory in use, low enough that an item cannot be made to cost megabytes.
pub const MAX_COLUMNS_PER_ITEM: usize = 1 << 16;

/// Chunk slices of one item, over all its columns.
pub const MAX_SLICES_PER_ITEM: usize = 1 << 20;

/// Nesting depth of a signature; prost itself stops at 100.
pub const MAX_SIGNATURE_DEPTH: usize = 32;

/// Nesting depth of a configuration in protobuf text, what prost takes in the binary form.
pub const MAX_TEXT_DEPTH: usize = 100;
