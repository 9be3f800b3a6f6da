//! Limits on external input and on waits, each with the reason for its value.

use std::time::Duration;

/// The maximum number of leaves in the observations of a saved policy; a robot's observations have a few
/// dozen.
pub const MAX_LEAVES: usize = 4_096;

/// The maximum number of workers of a run; the largest published runs have a few thousand.
pub const MAX_WORKERS: u32 = 65_536;

/// A learner on a server counts as dead if it sends no heartbeat for this long. By then, it has missed five heartbeats.
pub const LEARNER_SILENCE: Duration = Duration::from_secs(5);

/// The maximum number of learners of a run. It is limited because the sum of gradients passes through all learners at
/// each step.
pub const MAX_LEARNERS: u32 = 64;
/// A node that sends no heartbeat for this long counts as silent, and no process waits for weights from it. By then, it
/// has missed two heartbeats.
pub const NODE_SILENCE: Duration = Duration::from_secs(2);

/// A node that sends no heartbeat for this long counts as gone, and the numbers of its workers are reassigned. This is
/// the same time as for a learner.
pub const NODE_GONE: Duration = LEARNER_SILENCE;

/// The maximum number of nodes of a run, including those that have been gone for less than a minute; the
/// largest published runs have a few hundred machines.
pub const MAX_NODES: usize = 4_096;

/// The maximum number of workers of one node, which are processes of one machine.
pub const MAX_NODE_WORKERS: u32 = 4_096;

/// The time between two checks for newer weights.
pub(crate) const PUBLISH_EVERY: Duration = Duration::from_millis(10);

/// The pause after publishing weights, as a multiple of the time that publishing took.
const PUBLISHING_PAUSE: u32 = 10;

/// The longest pause after publishing weights. Publishing takes long while the server is away; the messages to nodes,
/// which the same thread sends, must not then be late for many times as long.
const MAX_PUBLISHING_PAUSE: Duration = Duration::from_secs(1);

/// Returns the pause after weights whose publishing took this long.
pub(crate) fn publishing_pause(took: Duration) -> Duration {
    took.saturating_mul(PUBLISHING_PAUSE).clamp(PUBLISH_EVERY, MAX_PUBLISHING_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heartbeats_soon_follow_an_outage() {
        let pause = |took_ms| publishing_pause(Duration::from_millis(took_ms)).as_millis();
        assert_eq!([0, 1, 20, 100, 8_000, u64::MAX].map(pause), [10, 10, 200, 1_000, 1_000, 1_000]);
        assert!(MAX_PUBLISHING_PAUSE < LEARNER_SILENCE / 2);
    }
}
