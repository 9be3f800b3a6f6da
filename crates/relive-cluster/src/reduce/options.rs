//! What the members of a ring agree on.

use std::time::Duration;

use super::RingError;
use super::limits::{MAX_RANKS, MAX_TEXT_BYTES};

/// What the members of a ring agree on. Number, job and token must be the same for all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RingOptions {
    /// How many members there are.
    pub ranks: u32,
    /// What they do together, such as a run's name: a member of another job is refused.
    pub job: String,
    /// What a member shows to be let in. It is sent as it is: whoever can read the network can read it.
    pub token: String,
    /// How long the meeting waits for all members.
    pub meeting: Duration,
    /// How long a call waits for members that live.
    pub timeout: Duration,
    /// A member that sends nothing for this long counts as lost. A process that ends is noticed at once.
    pub silence: Duration,
}

impl Default for RingOptions {
    /// One member alone, an empty job and token; a minute for the meeting, ten minutes for a call, ten seconds of
    /// silence.
    fn default() -> RingOptions {
        RingOptions {
            ranks: 1,
            job: String::new(),
            token: String::new(),
            meeting: Duration::from_mins(1),
            timeout: Duration::from_mins(10),
            silence: Duration::from_secs(10),
        }
    }
}

impl RingOptions {
    /// Whether all are within their ranges, and this rank is one.
    pub(super) fn validate(&self, rank: u32) -> Result<(), RingError> {
        let refused = |name, got: String, expected: String| Err(RingError::Setting { name, got, expected });
        if self.ranks == 0 || self.ranks > MAX_RANKS {
            return refused("ranks", self.ranks.to_string(), format!("1 to {MAX_RANKS}"));
        }
        if rank >= self.ranks {
            return refused(
                "rank",
                rank.to_string(),
                format!("0 to {}, as ranks is {}", self.ranks - 1, self.ranks),
            );
        }
        for (name, text) in [("job", &self.job), ("token", &self.token)] {
            if text.len() > MAX_TEXT_BYTES {
                return refused(
                    name,
                    format!("{} bytes long", text.len()),
                    format!("at most {MAX_TEXT_BYTES}"),
                );
            }
        }
        for (name, time) in [("meeting", self.meeting), ("timeout", self.timeout), ("silence", self.silence)]
        {
            if time.is_zero() {
                return refused(name, "0 s".to_owned(), "longer".to_owned());
            }
        }
        Ok(())
    }
}
