//! Runs programs on several machines: starts their processes, and lets them communicate.

#[cfg(doctest)]
mod clusters_docs;
pub mod launch;
pub mod reduce;
pub mod stream;
