//! The words in shared memory by which the processes of a trajectory store take turns: pins of rows, and the slots of
//! writers (`docs/gpu-store-format.md`).
//!
//! The functions never wait and use only atomics, so that loom can explore every interleaving. The crate contains
//! nothing else, so that loom's tests build without the store's dependencies.

pub mod pin;
pub mod slot;

mod sync;
