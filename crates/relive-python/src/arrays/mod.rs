//! numpy's arrays and their types: converted, read in place, and made of Rust's memory.

pub(crate) mod array;
pub(crate) mod buffer;
pub(crate) mod dtypes;
pub(crate) mod numeric_array;
