//! They never wait and use only atomics, so that loom can explore every interleaving.

pub(crate) mod pin;
pub(crate) mod slot;
