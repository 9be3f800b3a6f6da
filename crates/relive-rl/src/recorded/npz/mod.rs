//! Arrays of numpy: archives of them, and each by itself.

mod array;
mod file;
mod zip;

pub(super) use array::Array;
pub(super) use file::Npz;
