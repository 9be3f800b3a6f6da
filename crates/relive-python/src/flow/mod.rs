//! Dataflow of Python objects: `relive.flow`.
//!
//! [`Stream`] is a flow, and [`Shards`] are parallel flows. Their operators are Python functions, which [`Operator`]
//! calls.

mod operator;
mod owned;
mod pulled;
mod raise;
mod remote;
mod shards;
mod source;
mod stream;
mod turns;

pub(crate) use remote::{PyPort, PyReader, PyWriter};
pub(crate) use shards::Shards;
pub(crate) use source::NotYet;
pub(crate) use stream::Stream;
pub(crate) use turns::Turns;
