//! The names of a checkpoint's files but those of rows.

/// The checkpoint.
pub(super) const MANIFEST: &str = "store.manifest";
/// Locked by who writes.
pub(super) const LOCK: &str = "store.lock";
