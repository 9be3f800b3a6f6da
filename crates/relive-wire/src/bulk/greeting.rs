//! How a connection of the bulk path begins.

/// The first bytes of a connection of the bulk path, with its version. HTTP/2 begins otherwise, and so does every other
/// version: a client that knew the server before it was replaced is not misunderstood, but asks anew.
pub const MAGIC: &[u8; 8] = b"RELIVE2\n";

/// The version that both sides speak.
pub const VERSION: u32 = 2;
