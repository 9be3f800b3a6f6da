//! Maps from addresses and from ids that this program has drawn.

use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;

/// A map whose keys no outsider chooses, so that a fast hash is safe. A checkpoint makes millions of look-ups.
pub(crate) type FastMap<K, V> = HashMap<K, V, RandomState>;

/// The corresponding set.
pub(crate) type FastSet<K> = HashSet<K, RandomState>;
