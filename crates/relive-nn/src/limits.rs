//! Limits on untrusted data, each with the reason for its value.

/// The limit on the number of parameters in one [`Layout`](crate::Layout), 2²⁸ (1 GiB of f32): far more than is trained
/// on a CPU, and small enough that offsets fit into every integer type used here.
pub const MAX_PARAMETERS: usize = 1 << 28;

/// The limit on the number of leaves in one layout. A ResNet has a few hundred leaves; a file with more than the limit
/// is damaged.
pub const MAX_LEAVES: usize = 65_536;
