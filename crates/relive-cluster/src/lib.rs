//! Programs on several machines: how their processes are started, and what travels between them.

pub mod launch;
pub mod reduce;
pub mod stream;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/clusters.md")]
mod clusters_docs {}
