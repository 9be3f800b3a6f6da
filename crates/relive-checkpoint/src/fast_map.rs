//! Maps of addresses and of ids that this program has drawn.

use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;

/// A map whose keys nobody outside chooses, so that a quick hash is good enough. There are millions of look-ups in a
/// checkpoint.
pub(crate) type FastMap<K, V> = HashMap<K, V, RandomState>;

/// The set that goes with it.
pub(crate) type FastSet<K> = HashSet<K, RandomState>;
