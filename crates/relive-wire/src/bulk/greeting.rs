//! The beginning of a connection of the bulk path.

/// The first bytes of a connection of the bulk path, with its version. They differ from HTTP/2 and from every other
/// version, so if a server is replaced, its old clients are not misunderstood, but negotiate again.
pub const MAGIC: &[u8; 8] = b"RELIVE2\n";

/// The version of the protocol.
pub const VERSION: u32 = 2;
