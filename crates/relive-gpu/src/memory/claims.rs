//! Slots that processes claim by writing their identity to a word.

use std::sync::atomic::{AtomicU64, Ordering};

use super::identity::Identity;

/// A free slot.
pub(crate) const NOBODY: u64 = 0;
/// Marks a slot that its owner has left; the controller clears it.
pub(crate) const LEFT: u64 = u64::MAX;

/// Claims a free slot among `claims`.
pub(crate) fn claim_free<'a>(
    claims: impl IntoIterator<Item = &'a AtomicU64>,
    identity: Identity,
) -> Option<usize> {
    claims.into_iter().position(|claim| take(claim, NOBODY, identity))
}

/// Claims a slot whose owner is dead. The new owner must clear the state that the dead owner left. If the new owner
/// also dies, the next owner finds the same state.
pub(crate) fn claim_dead(claims: &[AtomicU64], identity: Identity) -> Option<usize> {
    claims.iter().position(|claim| {
        let word = claim.load(Ordering::Acquire);
        is_dead(word) && take(claim, word, identity)
    })
}

/// Returns whether a claim belongs to a process that has ended.
pub(crate) fn is_dead(word: u64) -> bool {
    word != NOBODY && word != LEFT && !Identity::from_word(word).is_alive()
}

fn take(claim: &AtomicU64, from: u64, identity: Identity) -> bool {
    claim.compare_exchange(from, identity.word(), Ordering::SeqCst, Ordering::Relaxed).is_ok()
}
