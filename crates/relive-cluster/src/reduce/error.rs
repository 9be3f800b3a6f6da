//! The errors of a ring.

use std::fmt::Display;

use thiserror::Error;

/// The reason why members of a ring cannot continue.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RingError {
    /// An option is out of range.
    #[error("{name} is {got}, but it must be {expected}")]
    Setting {
        /// The name of the option.
        name: &'static str,
        /// The value of the option.
        got: String,
        /// The accepted values.
        expected: String,
    },
    /// The meeting cannot be opened or reached, or not all members have joined it.
    #[error("cannot form the ring of members at {address}: {reason}")]
    Meeting {
        /// The address of the meeting.
        address: String,
        /// The reason.
        reason: String,
    },
    /// The meeting rejects this member.
    #[error("the ring of members at {address} refused this process: {reason}")]
    Refused {
        /// The address of the meeting.
        address: String,
        /// The reason.
        reason: String,
    },
    /// A member has died, has failed, or no longer answers.
    #[error("lost member {rank} ({address}): {reason}")]
    Lost {
        /// The rank of the member.
        rank: u32,
        /// The address of the member.
        address: String,
        /// How the loss was detected, or the member's own reason.
        reason: String,
    },
    /// A member has left the ring normally.
    #[error("member {rank} has left the ring, which ends it for all members")]
    Left {
        /// The rank of the member.
        rank: u32,
    },
    /// Some live members have not joined a call.
    #[error(
        "call {call} of the ring has waited {seconds} s for {who}, which has made fewer calls: it is slower \
         than the timeout allows, or it hangs; raise the timeout if it is only slow"
    )]
    Late {
        /// The number of the call, counted from 1.
        call: u64,
        /// How long the call has waited.
        seconds: u64,
        /// The missing members.
        who: String,
    },
    /// A call was cancelled while it was waiting.
    #[error("the call of the ring was interrupted: {reason}")]
    Interrupted {
        /// The reason.
        reason: String,
    },
    /// Members make different calls.
    #[error(
        "member {rank} called {theirs}, but this member called {own}; all members must make the same calls in the same order"
    )]
    Mismatch {
        /// The preceding member.
        rank: u32,
        /// The call that the other member made.
        theirs: String,
        /// The call that this member made.
        own: String,
    },
}

impl RingError {
    /// Returns whether the ring has ended normally, because a member has left.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self, RingError::Left { .. })
    }

    pub(super) fn meeting(address: &dyn Display, reason: String) -> RingError {
        RingError::Meeting { address: address.to_string(), reason }
    }
}
