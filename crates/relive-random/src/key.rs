//! Names of random streams.

use crate::Stream;

/// Names a random stream. Keys are derived from a seed with names and numbers. Adding a component, or running
/// components on other threads, therefore does not change the random numbers of other components.
///
/// ```
/// use relive_random::Key;
///
/// let weights = Key::from_seed(1).child("learner").child("weights");
/// assert_eq!(weights.stream().uniform().to_bits(), weights.stream().uniform().to_bits());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(u64);

impl Key {
    /// Returns the root of all keys of a run.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        Self(mix(seed ^ 0x5261_6e64_6f6d_4b65))
    }

    /// Returns the key of a named component.
    #[must_use]
    pub fn child(self, name: &str) -> Self {
        // FNV-1a distinguishes names; `mix` spreads its bits.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self(mix(self.0.rotate_left(17) ^ hash))
    }

    /// Returns the key of a numbered component: an actor, an episode, a step.
    #[must_use]
    pub fn nth(self, index: u64) -> Self {
        Self(mix(self.0.rotate_left(29) ^ mix(index)))
    }

    /// Returns a new stream at its beginning.
    #[must_use]
    pub fn stream(self) -> Stream {
        let state = [0, 1, 2, 3].map(|index: u64| mix(self.0 ^ mix(index)));
        Stream::new(state)
    }
}

/// Returns the finalizer of SplitMix64 (Steele et al. 2014).
fn mix(value: u64) -> u64 {
    let z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_by_name_and_number() {
        let root = Key::from_seed(3);
        let keys =
            [root, root.child("a"), root.child("b"), root.nth(0), root.nth(1), root.child("a").child("b")];
        for (i, key) in keys.iter().enumerate() {
            assert!(keys[i + 1..].iter().all(|other| other != key));
        }
        assert_ne!(Key::from_seed(0).stream().bits(), Key::from_seed(1).stream().bits());
    }
}
