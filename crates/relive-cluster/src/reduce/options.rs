//! The common options of a ring's members.

use std::fmt;
use std::time::Duration;

use super::RingError;
use super::limits::{MAX_RANKS, MAX_TEXT_BYTES, MAX_TIMEOUT, MIN_SILENCE};

/// The common options of a ring's members. `ranks`, `job` and `token` must be the same for all members.
#[derive(Clone, PartialEq, Eq)]
pub struct RingOptions {
    /// The number of members.
    pub ranks: u32,
    /// The name of the common work, such as a run. Members that belong to another job are rejected.
    pub job: String,
    /// The token that members present. It is sent in plain text, so anyone who can read the network traffic can read
    /// it.
    pub token: String,
    /// How long the meeting waits for all members.
    pub meeting: Duration,
    /// How long a call waits for live members without making any progress.
    pub timeout: Duration,
    /// The time after which a member that sends nothing counts as lost, at least 8 ms. If its process ends, this is
    /// detected immediately.
    pub silence: Duration,
}

/// Keeps the token out of logs.
impl fmt::Debug for RingOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("RingOptions");
        shown.field("ranks", &self.ranks).field("job", &self.job).field("has_token", &!self.token.is_empty());
        shown.field("meeting", &self.meeting).field("timeout", &self.timeout);
        shown.field("silence", &self.silence).finish()
    }
}

impl Default for RingOptions {
    /// Returns options for a single member, with an empty job, an empty token, a minute for the meeting, ten minutes
    /// for a call, and ten seconds of silence.
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
    /// Checks that all options and the given rank are within their ranges.
    pub(super) fn validate(&self, rank: u32) -> Result<(), RingError> {
        let refused = |name, got: String, expected: String| Err(RingError::Setting { name, got, expected });
        if self.ranks == 0 || self.ranks > MAX_RANKS {
            return refused("ranks", self.ranks.to_string(), format!("1 to {MAX_RANKS}"));
        }
        if rank >= self.ranks {
            return refused(
                "rank",
                rank.to_string(),
                format!("0 to {}, because ranks is {}", self.ranks - 1, self.ranks),
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
        let times = [
            ("meeting", self.meeting, Duration::from_nanos(1)),
            ("timeout", self.timeout, Duration::from_nanos(1)),
            ("silence", self.silence, MIN_SILENCE),
        ];
        for (name, time, least) in times {
            if time < least || time > MAX_TIMEOUT {
                let expected = format!("from {least:?} to {} days", MAX_TIMEOUT.as_secs() / 86_400);
                return refused(name, format!("{time:?}"), expected);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_never_printed() {
        let shown = format!("{:?}", RingOptions { token: "secret".into(), ..RingOptions::default() });
        assert!(shown.contains("has_token: true") && !shown.contains("secret"), "{shown}");
    }
}
