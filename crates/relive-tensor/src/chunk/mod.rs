//! Column chunks: consecutive steps of one or more columns, encoded once, immutable and shared.

mod bytes;
mod cold;
mod decode;
mod encode;
mod encoded;
mod error;
mod header;
mod headers;
mod recode;
mod residence;
mod shared_headers;
mod stored;

pub use bytes::ChunkBytes;
pub use cold::{ColdError, ColdStore};
pub use encode::encode_chunk;
pub(crate) use encode::{Encoded, encode_bytes, encode_payloads};
pub use encoded::EncodedTensor;
pub use error::{ChunkError, ChunkFault};
pub use header::{ColumnHeader, SequenceRange};
pub use residence::ResidenceGuard;
pub use shared_headers::SharedHeaders;
pub use stored::{Chunk, ChunkParts};
