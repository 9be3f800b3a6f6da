//! Bounds on what comes from outside, and on waits, each with the reason for its number.

use std::time::Duration;

/// Most leaves of an observation that a saved policy is for; a robot's observations have some dozen.
pub const MAX_LEAVES: usize = 4_096;

/// Most workers of a run; the largest published runs have some thousand.
pub const MAX_WORKERS: u32 = 65_536;

/// A learner on a server that gives no sign of life for so long is held for ended: five of its signs are missing then.
pub const LEARNER_SILENCE: Duration = Duration::from_secs(5);

/// Most learners of a run: the sum of gradients goes around all of them at each step.
pub const MAX_LEARNERS: u32 = 64;
