//! The beginning of a connection on the bulk path.

/// The first bytes of a connection on the bulk path, which include its version. They differ from those of HTTP/2 and of
/// every other version. If a server is replaced by one of a different version, its old clients are therefore refused,
/// and negotiate again.
pub const MAGIC: &[u8; 8] = b"RELIVE3\n";

/// The version of the protocol.
pub const VERSION: u32 = 3;
