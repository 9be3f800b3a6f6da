//! Samplers and batches: samples to arrays, new ones or the caller's.

mod batches;
mod gather;
mod infos;
mod out_arrays;
mod sampler;

pub(crate) use batches::{BatchIterator, Presenter};
pub(crate) use out_arrays::Out;
pub(crate) use sampler::{Sampler, to_python};
