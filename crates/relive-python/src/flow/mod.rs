//! Dataflow of Python's objects: `relive.flow`.
//!
//! [`Stream`] is a flow, and [`Shards`] are flows side by side. Their operators are functions of Python, which
//! [`Operator`] calls.

mod operator;
mod pulled;
mod raise;
mod remote;
mod shards;
mod source;
mod stream;

pub(crate) use remote::{PyPort, PyReader, PyWriter};
pub(crate) use shards::Shards;
pub(crate) use stream::Stream;
