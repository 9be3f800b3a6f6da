//! How a connection of the bulk path begins.

/// The first bytes of a connection of the bulk path. HTTP/2 begins otherwise.
pub const MAGIC: &[u8; 8] = b"RELIVE1\n";

/// The version that both sides speak.
pub const VERSION: u32 = 2;
