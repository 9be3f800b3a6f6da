//! Tensors: typed, shaped, immutable, cheap to clone.

mod error;
mod join;
mod value;

pub use error::TensorError;
pub use value::Tensor;
pub(crate) use value::{check_bytes, to_u64};
