#![forbid(unsafe_code)]
//! Tensors, column chunks, codecs and trajectories: the data that Relive stores, without I/O, async code or a clock.
//!
//! A *step* of experience is a nest of tensors ([`Nest`]). Its flattened leaves are *columns*. Consecutive steps of
//! some columns form a *chunk* ([`Chunk`]), which the writer encodes once ([`Chunker`], [`encode_chunk`]) and which is
//! then immutable and shared. An item of a table is a [`Trajectory`]: for every column, a list of slices of chunks.
//!
//! Untrusted bytes become trusted values in only two places: [`Chunk::new`] and [`TrajectoryBuilder::build`]. All
//! values that these accept can be decoded. The limits that they enforce are in [`limits`].
//!
//! ```
//! use relive_tensor::{Codec, Chunk, SequenceRange, Tensor, encode_chunk};
//!
//! let rows = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2])?;
//! let range = SequenceRange { episode_id: 9, start: 0, end: 1, sparse: false };
//! let chunk = Chunk::new(encode_chunk(7, range, &[rows.clone()], false, Codec::Snappy)?)?;
//! assert_eq!(chunk.decode_column(0)?, rows);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(target_endian = "big")]
compile_error!(
    "tensor bytes are little endian everywhere in Relive; views of them need a little-endian machine"
);

mod accounts;
mod chunk;
mod chunker;
pub mod codec;
mod dtype;
mod element;
mod layout;
pub mod limits;
mod nest;
mod shape;
mod spec;
mod tensor;
mod trajectory;

pub use accounts::{Account, ChunkTotals, Ledger, MIN_MOVABLE_BYTES};
pub use chunk::{
    Chunk, ChunkBytes, ChunkError, ChunkFault, ChunkParts, ColdError, ColdStore, ColumnHeader, EncodedTensor,
    ResidenceGuard, SequenceRange, SharedHeaders, encode_chunk,
};
pub use chunker::{
    AutoTuner, ChunkLength, ChunkSink, ChunkStatistic, Chunker, ChunkerError, Cut, CutColumn, Encoding,
    PlacedRows, PlainColumn, PlainCut, Rows,
};
pub use codec::{Codec, CodecError, CodecSet};
pub use dtype::{DType, UnknownDType};
pub use element::{Element, F8E4M3Fn, F8E5M2};
pub use layout::ColumnLayout;
pub use nest::{Leaves, Nest, NestError, Path, PathPart};
pub use shape::{Shape, ShapeError};
pub use spec::{Signature, TensorSpec};
pub use tensor::{Tensor, TensorError};
pub use trajectory::{
    Column, ColumnSpan, MAX_PACKED_BYTES, MAX_ROW_BYTES, OnlySlice, Row, RowLayout, Slice, Trajectory,
    TrajectoryBuilder, TrajectoryError,
};
