//! The lock-free protocols between processes: pins against eviction, and the turns of a writer's slot. They never wait
//! and only use atomics, so that loom can explore every interleaving.

pub(crate) mod pin;
pub(crate) mod slot;
