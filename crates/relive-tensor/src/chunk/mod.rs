//! Column chunks: consecutive steps of one or more columns, encoded once, immutable and shared.

mod decode;
mod encode;
mod encoded;
mod error;
mod header;
mod ledger;
mod stored;

pub use encode::encode_chunk;
pub use encoded::EncodedTensor;
pub use error::{ChunkError, ChunkFault};
pub use header::{ColumnHeader, SequenceRange};
pub use ledger::{Ledger, LedgerSnapshot};
pub use stored::{Chunk, ChunkParts};
