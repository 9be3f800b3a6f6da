//! Bounds on what comes from outside, each with the reason for its number.

/// Most parameters of one [`Layout`](crate::Layout), 2²⁸ (1 GiB of f32): far beyond what is trained on a CPU, and
/// offsets into them fit every integer used here.
pub const MAX_PARAMETERS: usize = 1 << 28;

/// Most leaves of one layout. A ResNet has some hundred; a file that claims more is damaged.
pub const MAX_LEAVES: usize = 65_536;

/// Most bytes of the text that goes along with saved parameters, 1 MiB: a configuration, not data.
pub const MAX_METADATA_BYTES: usize = 1 << 20;
