//! Bounds on what a peer may send, each with the reason for its number.

/// Largest message accepted: dm-reverb's writers cut requests at 40 MiB but never split a chunk, so one message can
/// be one very large chunk. Beyond 1 GiB the writer should use shorter chunks.
pub const MAX_MESSAGE_BYTES: usize = 1 << 30;

/// A sample response is sent once its chunks exceed this many bytes, as dm-reverb's server does.
pub const SAMPLE_RESPONSE_BYTES: usize = 2 << 20;

/// A batch of samples taken from a table ends once its chunks reach this many bytes, as in dm-reverb.
pub const SAMPLE_BATCH_BYTES: usize = 1 << 20;

/// Size of the batch before the first on a sample stream; each batch may be twice as large as the one before.
pub const SAMPLE_BATCH_BASE: usize = 64;

/// Columns of one item: far above any trajectory in use, low enough that an item cannot be made to cost megabytes.
pub const MAX_COLUMNS_PER_ITEM: usize = 1 << 16;

/// Chunk slices of one item, over all its columns. A sample repeats them, some 25 bytes each, so that an item of very
/// many slices costs more to describe than to store.
pub const MAX_SLICES_PER_ITEM: usize = 1 << 16;

/// Memory that the parts of one insert request may take besides payload, once decoded. Writers that send a million
/// small items at once stay below it.
pub const MAX_DESCRIPTION_BYTES: usize = 256 << 20;

/// Runs of items of one insert request: writers send a thousand items at most, and each run costs some hundred bytes.
pub const MAX_RUNS_PER_REQUEST: usize = 1 << 16;

/// Requests up to this size are decoded without being counted first: whatever they hold, it is little.
pub const UNCOUNTED_REQUEST_BYTES: usize = 1 << 20;

/// Strings of one tensor that may be listed one by one; writers send them in the compact form, without this limit.
pub const MAX_LISTED_STRINGS: usize = 1 << 20;

/// Part of a sample's description that does not count towards the size of a message, so that ordinary samples are
/// packed by their chunks alone, as dm-reverb packs them.
pub const FREE_INFO_BYTES: usize = 512;

/// Nesting depth of a signature; prost itself stops at 100.
pub const MAX_SIGNATURE_DEPTH: usize = 32;

/// Nesting depth of a configuration in protobuf text, what prost takes in the binary form.
pub const MAX_TEXT_DEPTH: usize = 100;

/// Head of a frame of the bulk path: a batch's has some tens of bytes for each of its columns.
pub const MAX_BULK_HEAD_BYTES: usize = 4 << 20;

/// Body of a frame of the bulk path: a batch. What one gRPC message could not carry either.
pub const MAX_BULK_BODY_BYTES: usize = 4 << 30;

/// Samples of one batch.
pub const MAX_BULK_SAMPLES: usize = 1 << 20;

/// Bytes before a gRPC message: a flag (0, not compressed) and the length in big endian.
pub const GRPC_HEADER_BYTES: usize = 5;
