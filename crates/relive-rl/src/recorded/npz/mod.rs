//! Numpy arrays, single and in archives.

mod array;
mod file;
mod zip;

pub(super) use array::Array;
pub(super) use file::Npz;
