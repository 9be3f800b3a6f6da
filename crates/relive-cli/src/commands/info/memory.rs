//! Formats the memory of chunks, as text and for programs.

use relive_client::{ChunkTotals, MemoryStatus};
use serde::Serialize;

use super::snapshot::Table;
use super::waiters::{WaiterFields, waiter_fields};
use crate::units::bytes;

/// Returns the line about the memory of a server; the lines about its waiters follow.
pub(in crate::commands) fn line(chunks: &ChunkTotals, memory: &MemoryStatus) -> String {
    let mut parts = vec![format!("{} of chunks", bytes(chunks.resident_bytes()))];
    if let Some(limit) = memory.max_bytes {
        parts.push(format!("at most {}", bytes(limit)));
    }
    if chunks.spilled_bytes > 0 {
        parts.push(format!("{} on disk", bytes(chunks.spilled_bytes)));
    }
    if chunks.shared_bytes > 0 {
        parts.push(format!("{} shared by tables", bytes(chunks.shared_bytes)));
    }
    let process = memory.process_bytes.map(|size| format!("; the process has {}", bytes(size)));
    let stuck = memory.spill_error.as_ref();
    let stuck = stuck.map(|error| format!("; chunks cannot be moved to disk and stay in memory: {error}"));
    format!("memory: {}{}{}", parts.join(", "), process.unwrap_or_default(), stuck.unwrap_or_default())
}

/// Returns the bytes of a table's chunks, their bound, and the bytes on disk or shared with other tables. Returns
/// `None` if the server does not report them.
pub(in crate::commands) fn of_table(table: Table<'_>) -> Option<String> {
    let chunks = &table.details?.chunks;
    let mut text = bytes(chunks.encoded_bytes);
    if let Some(limit) = table.info.config.max_bytes {
        text.push_str(&format!(" of {}", bytes(limit)));
    }
    let parts = [("on disk", chunks.spilled_bytes), ("shared with other tables", chunks.shared_bytes)];
    for (what, size) in parts.into_iter().filter(|(_, size)| *size > 0) {
        text.push_str(&format!(", {} {what}", bytes(size)));
    }
    Some(text)
}

#[derive(Serialize)]
pub(in crate::commands) struct MemoryFields<'a> {
    max_bytes: Option<u64>,
    resident_bytes: u64,
    shared_bytes: u64,
    spilled_bytes: u64,
    process_bytes: Option<u64>,
    waiters: Vec<WaiterFields<'a>>,
    waiters_not_listed: u64,
    spill_error: Option<&'a str>,
}

#[derive(Serialize)]
pub(in crate::commands) struct ChunkFields {
    count: u64,
    encoded_bytes: u64,
    raw_bytes: u64,
    resident_bytes: u64,
    shared_bytes: u64,
    spilled_bytes: u64,
}

pub(in crate::commands) fn memory_fields<'a>(
    chunks: &ChunkTotals,
    memory: &'a MemoryStatus,
) -> MemoryFields<'a> {
    MemoryFields {
        max_bytes: memory.max_bytes,
        resident_bytes: chunks.resident_bytes(),
        shared_bytes: chunks.shared_bytes,
        spilled_bytes: chunks.spilled_bytes,
        process_bytes: memory.process_bytes,
        waiters: memory.waiters.iter().map(waiter_fields).collect(),
        waiters_not_listed: memory.waiters_not_listed,
        spill_error: memory.spill_error.as_deref(),
    }
}

pub(in crate::commands) fn chunk_fields(chunks: &ChunkTotals) -> ChunkFields {
    ChunkFields {
        count: chunks.chunks,
        encoded_bytes: chunks.encoded_bytes,
        raw_bytes: chunks.raw_bytes,
        resident_bytes: chunks.resident_bytes(),
        shared_bytes: chunks.shared_bytes,
        spilled_bytes: chunks.spilled_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_line_omits_absent_values() {
        let chunks = ChunkTotals { encoded_bytes: 3 << 20, ..ChunkTotals::default() };
        assert_eq!(line(&chunks, &MemoryStatus::default()), "memory: 3.00 MiB of chunks");
        let chunks = ChunkTotals { spilled_bytes: 1 << 20, shared_bytes: 2048, ..chunks };
        let (max_bytes, process_bytes) = (Some(2 << 20), Some(40 << 20));
        let memory = MemoryStatus { max_bytes, process_bytes, ..MemoryStatus::default() };
        assert_eq!(
            line(&chunks, &memory),
            "memory: 2.00 MiB of chunks, at most 2.00 MiB, 1.00 MiB on disk, 2.00 KiB shared by tables; the process has 40.0 MiB"
        );
        let memory = MemoryStatus { spill_error: Some("disk full".to_owned()), ..MemoryStatus::default() };
        let expected = "memory: 0 B of chunks; chunks cannot be moved to disk and stay in memory: disk full";
        assert_eq!(line(&ChunkTotals::default(), &memory), expected);
    }
}
