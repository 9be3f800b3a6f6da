//! Programs on several machines: starting their processes, and communication between them.

#[cfg(doctest)]
mod clusters_docs;
pub mod launch;
pub mod reduce;
pub mod stream;
