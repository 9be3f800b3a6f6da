//! Samplers and batches, which write samples to new arrays or to the caller's.

mod batches;
mod gather;
mod infos;
mod out_arrays;
mod sampler;

pub(crate) use batches::{BatchIterator, Presenter};
pub(crate) use out_arrays::Out;
pub(crate) use sampler::{Sampler, to_python};
