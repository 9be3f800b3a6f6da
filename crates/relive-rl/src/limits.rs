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
/// A node that gives no sign of life for so long is held for silent, and nobody waits for weights from it: two of its
/// signs are missing then.
pub const NODE_SILENCE: Duration = Duration::from_secs(2);

/// A node that gives no sign of life for so long is held for gone, and the numbers of its workers are given to
/// others. As long as for a learner.
pub const NODE_GONE: Duration = LEARNER_SILENCE;

/// Most nodes of a run, those that are gone for less than a minute among them; the largest published runs have some
/// hundred machines.
pub const MAX_NODES: usize = 4_096;

/// Most workers of one node, which are processes of one machine.
pub const MAX_NODE_WORKERS: u32 = 4_096;
