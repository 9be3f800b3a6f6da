//! Column chunks: consecutive steps of one or more columns, encoded once, immutable and shared.

mod account;
mod bytes;
mod cold;
mod decode;
mod encode;
mod encoded;
mod error;
mod header;
mod headers;
mod ledger;
mod recode;
mod residence;
mod state;
mod stored;

pub use account::{Account, AccountSnapshot};
pub use bytes::ChunkBytes;
pub use cold::{ColdError, ColdStore};
pub use encode::encode_chunk;
pub(crate) use encode::{Encoded, encode_bytes, encode_payloads};
pub use encoded::EncodedTensor;
pub use error::{ChunkError, ChunkFault};
pub use header::{ColumnHeader, SequenceRange};
pub use headers::SharedHeaders;
pub use ledger::{Ledger, LedgerSnapshot, MIN_MOVABLE_BYTES};
pub use residence::AtHand;
pub use stored::{Chunk, ChunkParts};
