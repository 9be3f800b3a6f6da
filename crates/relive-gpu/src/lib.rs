#![doc = include_str!("../docs/lib.md")]

pub mod cuda;
pub mod select;

mod error;

pub use error::{Error, ErrorKind, Result};
