//! The memory status of an engine, and its text form.

use std::sync::Arc;
use std::time::Duration;

use relive_tensor::ChunkTotals;

/// The memory of an engine's chunks, and the writers that are waiting for memory.
#[derive(Debug, Clone)]
pub struct MemoryStatus {
    /// All live chunks, each counted once.
    pub chunks: ChunkTotals,
    /// The bound on the bytes that are in memory.
    pub max_bytes: Option<u64>,
    /// The number of bytes in memory at which writers wait: the bound, or 15/16 of it with a disk tier.
    pub gate_bytes: Option<u64>,
    /// The number of bytes that writers are about to send, which already count against the bound.
    pub reserved_bytes: u64,
    /// Writers that wait for memory, longest wait first.
    pub waiters: Vec<MemoryWaiter>,
    /// The number of waiters beyond those listed.
    pub waiters_not_listed: usize,
    /// The reason why the last attempt to move chunks to disk failed; the chunks stay in memory.
    pub spill_error: Option<String>,
}

/// A writer that waits for memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryWaiter {
    /// The writer, as named when its gate was created.
    pub who: Arc<str>,
    /// How long the writer has waited.
    pub waiting: Duration,
}

impl MemoryStatus {
    /// Returns, as text, the condition that the waiters are waiting for.
    #[must_use]
    pub fn reason(&self) -> String {
        let limit = limit(self.max_bytes, self.gate_bytes);
        let stuck = match &self.spill_error {
            Some(error) => format!("; chunks cannot be moved to disk: {error}"),
            None => String::new(),
        };
        format!("server memory: chunks take {}, max_bytes is {limit}{stuck}", self.used())
    }

    /// Returns, as text, the bytes that count against the bound.
    pub(crate) fn used(&self) -> String {
        let resident = bytes(self.chunks.resident_bytes());
        match self.reserved_bytes {
            0 => resident,
            reserved => format!("{resident} and {} are in flight", bytes(reserved)),
        }
    }
}

/// Returns the bound as text.
pub(crate) fn limit(max_bytes: Option<u64>, gate_bytes: Option<u64>) -> String {
    match (max_bytes, gate_bytes) {
        (Some(max), Some(gate)) if gate < max => {
            format!("{}, with {} for writers and the rest for the disk tier", bytes(max), bytes(gate))
        }
        (Some(max), _) => bytes(max),
        (None, _) => "unlimited".to_owned(),
    }
}

/// Returns a number of bytes as text: `7.9 GB`.
pub(crate) fn bytes(number: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    let (mut value, mut unit) = (number as f64, "B");
    for larger in UNITS {
        if value < 1000.0 {
            break;
        }
        value /= 1000.0;
        unit = larger;
    }
    if unit == "B" { format!("{number} B") } else { format!("{value:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_counts_are_shown_with_decimal_units() {
        let shown = [0, 999, 1_000, 8_000_000_000, u64::MAX].map(bytes);
        assert_eq!(shown, ["0 B", "999 B", "1.0 kB", "8.0 GB", "18.4 EB"]);
    }
}
