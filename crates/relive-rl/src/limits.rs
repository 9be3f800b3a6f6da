//! Bounds on what comes from outside, each with the reason for its number.

/// Most hidden layers of a saved network; the deepest that are trained on a CPU have some dozen.
pub const MAX_LAYERS: usize = 256;

/// Most leaves of an observation that a saved network is for; a robot's observations have some dozen.
pub const MAX_LEAVES: usize = 4_096;

/// Most atoms or quantiles of an action's distribution; 51 to 200 are usual.
pub const MAX_ATOMS: usize = 4_096;
