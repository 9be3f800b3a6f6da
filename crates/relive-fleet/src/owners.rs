//! Records which server has which item.
//!
//! Keys are 64 random bits and do not identify servers. The client remembers the server of each key that it has
//! received in a sample or in a confirmation to a writer. Updates for unknown keys are sent to all servers, so
//! forgetting a key costs additional messages, but no update is lost.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The largest number of remembered keys: far more than a learner uses at a time. Their 8 MiB are allocated with the
/// first key.
const SLOTS: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 20;

/// The bits of a key that are implied by its slot. A slot stores the server's number in place of these bits.
const LOW_BITS: u64 = (1 << SLOT_BITS) - 1;

/// A map of bounded size: each key belongs to one slot, which holds the newest of its keys. A slot stores the key's
/// bits that are not implied by the slot's number, so an entry is never mistaken for the entry of another key.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    slots: OnceLock<Box<[AtomicU64]>>,
}

/// The number of a server, from 1; 0 is none. Numbers are never reused, and numbers that do not fit into a slot are not
/// remembered.
pub type MemberNumber = u32;

impl Owners {
    /// Records that `server` has the item `key`.
    pub(crate) fn note(&self, key: u64, server: MemberNumber) {
        let server = u64::from(server);
        if server > LOW_BITS {
            return;
        }
        let slots = self.slots.get_or_init(|| (0..SLOTS).map(|_| AtomicU64::new(0)).collect());
        if let Some(slot) = slots.get(slot_of(key)) {
            // Relaxed ordering suffices, because the word is written atomically and no other data depends on it.
            slot.store(key & !LOW_BITS | server, Ordering::Relaxed);
        }
    }

    /// Returns the last known server of the item `key`.
    pub(crate) fn find(&self, key: u64) -> Option<MemberNumber> {
        let entry = self.slots.get()?.get(slot_of(key))?.load(Ordering::Relaxed);
        let server = MemberNumber::try_from(entry & LOW_BITS).ok()?;
        (server != 0 && entry & !LOW_BITS == key & !LOW_BITS).then_some(server)
    }
}

fn slot_of(key: u64) -> usize {
    usize::try_from(key & LOW_BITS).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    #[test]
    fn a_key_is_found_until_evicted_and_never_confused_with_another() {
        let owners = Owners::default();
        assert_eq!(owners.find(7), None);
        owners.note(7, 3);
        assert_eq!(owners.find(7), Some(3));
        let other = 7 | 1 << 40;
        assert_eq!(owners.find(other), None);
        owners.note(other, 4);
        assert_eq!((owners.find(7), owners.find(other)), (None, Some(4)));
        owners.note(0, 1);
        assert_eq!(owners.find(0), Some(1), "key 0 is an ordinary key");
        owners.note(9, u32::MAX);
        assert_eq!(owners.find(9), None, "a server number that does not fit is not stored");
    }

    #[test]
    fn the_newest_keys_are_remembered() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let keys: Vec<u64> = (0..SLOTS / 16).map(|_| rng.random()).collect();
        let owners = Owners::default();
        for (number, key) in (0_u32..).zip(&keys) {
            owners.note(*key, number % 4 + 1);
        }
        let known =
            (0_u32..).zip(&keys).filter(|(number, key)| owners.find(**key) == Some(number % 4 + 1)).count();
        assert!(known * 100 > keys.len() * 95, "{known} of {}", keys.len());
    }
}
