#![doc = include_str!("../docs/lib.md")]

mod error;

pub use error::{Error, ErrorKind, Result};
