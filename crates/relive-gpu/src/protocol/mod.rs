//! They never wait and only use atomics, so that loom can explore every interleaving.

pub(crate) mod pin;
pub(crate) mod slot;
