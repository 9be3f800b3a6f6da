//! Limits on messages from peers, each with its reason.

/// The largest accepted message. dm-reverb's writers cut requests at 40 MiB but never split a chunk, so a message can
/// consist of one very large chunk. Beyond 1 GiB, the writer should use shorter chunks.
pub const MAX_MESSAGE_BYTES: usize = 1 << 30;

/// The total size, in bytes, of a sample response's chunks above which the response is sent, as in dm-reverb's server.
pub const SAMPLE_RESPONSE_BYTES: usize = 2 << 20;

/// The total size of chunks, in bytes, at which a batch of samples taken from a table ends, as in dm-reverb.
pub const SAMPLE_BATCH_BYTES: usize = 1 << 20;

/// The nominal size of the batch before the first one on a sample stream. Each batch may be twice as large as the
/// previous one.
pub const SAMPLE_BATCH_BASE: usize = 64;

/// The largest number of columns of one item: far above any trajectory in use, and low enough that an item cannot cost
/// megabytes.
pub const MAX_COLUMNS_PER_ITEM: usize = 1 << 16;

/// The largest number of chunk slices of one item, over all its columns. Each sample repeats the slices, at about 25
/// bytes each, so an item with very many slices costs more to describe than to store.
pub const MAX_SLICES_PER_ITEM: usize = 1 << 16;

/// The memory that the decoded parts of one insert request may take in addition to the payload. Writers that send a
/// million small items at once stay below this limit.
pub const MAX_DESCRIPTION_BYTES: usize = 256 << 20;

/// The largest number of runs of items in one insert request. Writers send at most a thousand items, and each run costs
/// a few hundred bytes.
pub const MAX_RUNS_PER_REQUEST: usize = 1 << 16;

/// The largest number of keys in one request for items: about as many random keys as fit into a call.
pub const MAX_KEYS_PER_REQUEST: usize = 2 << 20;

/// The size up to which requests are decoded without being counted first, because they take little memory in any case.
pub const UNCOUNTED_REQUEST_BYTES: usize = 1 << 20;

/// The largest number of strings of one tensor that are listed individually. Writers use the compact form, which does
/// not have this limit.
pub const MAX_LISTED_STRINGS: usize = 1 << 20;

/// The part of a sample's description that does not count toward the size of a message, so that ordinary samples are
/// packed by the size of their chunks alone, as in dm-reverb.
pub const FREE_INFO_BYTES: usize = 512;

/// The largest nesting depth of a signature. prost's own limit is 100.
pub const MAX_SIGNATURE_DEPTH: usize = 32;

/// The largest nesting depth of a configuration in protobuf text: prost's limit for the binary form.
pub const MAX_TEXT_DEPTH: usize = 100;

/// The largest head of a frame of the bulk path. A batch's head has a few dozen bytes per column.
pub const MAX_BULK_HEAD_BYTES: usize = 4 << 20;

/// The largest body of a frame of the bulk path, such as a batch. A gRPC message could not be larger either.
pub const MAX_BULK_BODY_BYTES: usize = 4 << 30;

/// The largest number of samples of one batch.
pub const MAX_BULK_SAMPLES: usize = 1 << 20;

/// The number of bytes before a gRPC message: a flag (0, not compressed) and the length, big-endian.
pub const GRPC_HEADER_BYTES: usize = 5;
