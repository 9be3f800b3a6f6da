//! Programs on several machines: how their processes are started, and what travels between them.

#[cfg(doctest)]
mod clusters_docs;
pub mod launch;
pub mod reduce;
pub mod stream;
