//! Samplers and batches, which write samples to new arrays or to the caller's.
//!
//! `sampler` and `batches` are the iterators. Both pass samples to `gather`, which decodes each column into the memory
//! of one numpy array, unless a batch already has the column in one block. `out_arrays` contains the caller's arrays.

mod batches;
mod gather;
mod infos;
mod out_arrays;
mod sampler;

pub(crate) use batches::{BatchIterator, Presenter};
pub(crate) use out_arrays::Out;
pub(crate) use sampler::{Sampler, to_python};
