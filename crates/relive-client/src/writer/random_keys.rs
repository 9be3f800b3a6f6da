//! Maps by item key.

use std::hash::{BuildHasherDefault, Hasher};

/// How maps by item key find their entries.
pub(crate) type RandomKeys = BuildHasherDefault<RandomKeyHasher>;

/// The hash of an item key is the key: a writer draws them at random.
#[derive(Debug, Default)]
pub(crate) struct RandomKeyHasher(u64);

impl Hasher for RandomKeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}
