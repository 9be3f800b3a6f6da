//! Maps whose keys are addresses, or ids drawn by this program.

use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;

/// A map whose keys are not chosen by other parties, so that a fast hash is safe. A checkpoint performs millions of
/// lookups.
pub(crate) type FastMap<K, V> = HashMap<K, V, RandomState>;

/// The corresponding set.
pub(crate) type FastSet<K> = HashSet<K, RandomState>;
