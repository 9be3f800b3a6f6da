//! What processes agree on by single words: pins against eviction, and the turns of a writer's slot. Nothing here waits, and nothing
//! but atomics is used, so that loom can try every interleaving.

pub(crate) mod pin;
pub(crate) mod slot;
