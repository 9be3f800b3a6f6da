//! Random streams that do not depend on which component draws first: each component has a key, which is derived from a
//! seed and the component's name.

#![forbid(unsafe_code)]

mod key;
mod stream;

pub use key::Key;
pub use stream::{NoStream, Stream};
