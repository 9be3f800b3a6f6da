//! Sums over chunks.

/// The totals of a [`Ledger`](crate::Ledger) or of an [`Account`](crate::Account), all read at about the same time. Each
/// individual total is exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkTotals {
    /// The number of distinct chunks.
    pub chunks: u64,
    /// The number of bytes in the frames of the chunks.
    pub encoded_bytes: u64,
    /// The number of bytes in the content of the chunks once decoded.
    pub raw_bytes: u64,
    /// For a ledger, the encoded bytes that several accounts hold, each chunk counted once; for an account, the encoded
    /// bytes that another account also holds.
    pub shared_bytes: u64,
    /// The number of encoded bytes that are on disk and not in memory.
    pub spilled_bytes: u64,
}

impl ChunkTotals {
    /// Returns the number of encoded bytes in memory.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        self.encoded_bytes.saturating_sub(self.spilled_bytes)
    }
}
