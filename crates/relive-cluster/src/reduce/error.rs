//! What can go wrong in a ring.

use std::fmt::Display;

use thiserror::Error;

/// Why members of a ring cannot go on together.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RingError {
    /// An option out of its range.
    #[error("{name} is {got}, but it must be {expected}")]
    Setting {
        /// The option.
        name: &'static str,
        /// What it is.
        got: String,
        /// What it may be.
        expected: String,
    },
    /// The meeting cannot be opened or reached, or not all have come to it.
    #[error("the meeting at {address}: {reason}")]
    Meeting {
        /// Its address.
        address: String,
        /// What is wrong.
        reason: String,
    },
    /// The meeting does not take this member.
    #[error("the meeting at {address} refuses this member: {reason}")]
    Refused {
        /// Its address.
        address: String,
        /// Why.
        reason: String,
    },
    /// A member has died, has failed, or does not answer any more.
    #[error("member {rank} ({address}) is lost: {reason}")]
    Lost {
        /// Which.
        rank: u32,
        /// Where it was.
        address: String,
        /// How that was noticed, or what it has told.
        reason: String,
    },
    /// A member has left the ring in order: it has nothing more to add.
    #[error("member {rank} has left the ring: what all of them did is over")]
    Left {
        /// Which.
        rank: u32,
    },
    /// Members live, and do not come to a call.
    #[error(
        "call {call} of the ring has waited {seconds} s for {who}, which has made fewer calls: it is slower than the timeout allows, or it hangs"
    )]
    Late {
        /// The number of the call, from 1 on.
        call: u64,
        /// How long it has waited.
        seconds: u64,
        /// The members that are missing.
        who: String,
    },
    /// A call was told to end while it waited.
    #[error("the call of the ring was ended: {reason}")]
    Interrupted {
        /// Why.
        reason: String,
    },
    /// Members make different calls.
    #[error(
        "member {rank} calls {theirs}, and this member {own}: all members must make the same calls in the same order"
    )]
    Mismatch {
        /// The member before this one.
        rank: u32,
        /// What it calls.
        theirs: String,
        /// What this one calls.
        own: String,
    },
}

impl RingError {
    /// Whether the ring is over in order, because a member has left.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self, RingError::Left { .. })
    }

    pub(super) fn meeting(address: &dyn Display, reason: String) -> RingError {
        RingError::Meeting { address: address.to_string(), reason }
    }
}
