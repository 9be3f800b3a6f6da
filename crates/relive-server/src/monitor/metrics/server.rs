//! The metrics of the server: connections, memory, checkpoints.

use relive_table::{CheckpointStatus, FinishedCheckpoint};

use crate::monitor::{overview::Server, prometheus::Page};

/// Writes the metrics of the server at the time `now`, in seconds since 1970.
pub(super) fn put(page: &mut Page, server: &Server, now: f64) {
    page.gauge("relive_uptime_seconds", "Time since the server started to serve its tables.")
        .is(server.uptime.as_secs_f64());
    page.gauge("relive_connections", "Open connections of clients.").is(server.connections);
    page.counter("relive_connections_refused_total", "Connections refused because of max_connections.")
        .is(server.refused_connections);
    page.counter(
        "relive_connections_cut_total",
        "Connections closed because their clients were too slow while others waited.",
    )
    .is(server.traffic.cut);
    page.gauge("relive_in_flight_bytes", "Bytes in flight between clients and tables.")
        .is(server.traffic.bytes);
    page.gauge("relive_in_flight_max_bytes", "Limit of bytes in flight, max_bytes_in_flight.")
        .is(server.traffic.max_bytes);
    page.gauge(
        "relive_unread_bytes",
        "Bytes that clients have sent over HTTP/2 and that no stream has read.",
    )
    .is(server.unread_bytes);
    page.gauge("relive_in_flight_waiting_streams", "Streams that wait because of this limit.")
        .is(server.traffic.waiting);
    let mut streams = page.gauge("relive_streams", "Open streams of these connections.");
    streams.with(&[("kind", "insert")], server.insert_streams);
    streams.with(&[("kind", "sample")], server.sample_streams);
    memory(page, server);
    checkpoints(page, &server.checkpoints, now);
}

fn memory(page: &mut Page, server: &Server) {
    let memory = &server.memory;
    let chunks = &memory.chunks;
    page.gauge("relive_chunks", "Live chunks, each counted once.").is(chunks.chunks);
    page.gauge("relive_chunk_encoded_bytes", "Stored bytes of live chunks.").is(chunks.encoded_bytes);
    page.gauge("relive_chunk_raw_bytes", "Decoded bytes of live chunks.").is(chunks.raw_bytes);
    page.gauge("relive_chunk_resident_bytes", "Stored bytes of chunks in memory.")
        .is(chunks.resident_bytes());
    page.gauge("relive_chunk_spilled_bytes", "Stored bytes of chunks on disk.").is(chunks.spilled_bytes);
    page.gauge("relive_chunk_shared_bytes", "Stored bytes of chunks that several tables share.")
        .is(chunks.shared_bytes);
    page.gauge("relive_memory_max_bytes", "Limit of stored bytes in memory, max_bytes.")
        .maybe(memory.max_bytes);
    page.gauge("relive_memory_reserved_bytes", "Bytes reserved for writers.").is(memory.reserved_bytes);
    let waiting = memory.waiters.len() + memory.waiters_not_listed;
    page.gauge("relive_memory_waiters", "Writers that wait for memory.").is(waiting);
    let longest = memory.waiters.first().map_or(0.0, |waiter| waiter.waiting.as_secs_f64());
    page.gauge("relive_memory_longest_wait_seconds", "Longest current wait of a writer for memory.")
        .is(longest);
    page.gauge("relive_spill_failing", "Whether the last attempt to move chunks to disk failed.")
        .is(memory.spill_error.is_some());
}

fn checkpoints(page: &mut Page, status: &CheckpointStatus, now: f64) {
    let mut all = page.counter("relive_checkpoints_total", "Checkpoints since the server started.");
    all.with(&[("outcome", "saved")], status.num_saved);
    all.with(&[("outcome", "failed")], status.num_failed);
    page.gauge("relive_checkpoint_running", "Whether a checkpoint is being written.")
        .is(status.running.is_some());
    let counts = status.running.as_ref().map(|running| running.counts);
    page.gauge("relive_checkpoint_done_bytes", "Bytes of the running checkpoint that are written.")
        .maybe(counts.map(|counts| counts.bytes_done));
    page.gauge(
        "relive_checkpoint_expected_bytes",
        "Bytes that the running checkpoint will write; 0 until known.",
    )
    .maybe(counts.map(|counts| counts.bytes_total));
    page.gauge("relive_checkpoint_next_due_seconds", "Time until the next scheduled checkpoint.")
        .maybe(status.next_due.map(|due| due.as_secs_f64()));
    let saved = status.last_saved.as_ref();
    let age = |saved: &FinishedCheckpoint| (now - saved.began_at.as_nanos() as f64 / 1e9).max(0.0);
    page.gauge("relive_checkpoint_age_seconds", "Age of the data in the last successful checkpoint.")
        .maybe(saved.map(age));
    page.gauge("relive_checkpoint_duration_seconds", "Duration of the last successful checkpoint.")
        .maybe(saved.map(|saved| saved.took.as_secs_f64()));
    page.gauge(
        "relive_checkpoint_pause_seconds",
        "Longest time that the last successful checkpoint locked a table.",
    )
    .maybe(saved.map(|saved| saved.longest_pause.as_secs_f64()));
    let sizes = saved.and_then(FinishedCheckpoint::saved);
    page.gauge("relive_checkpoint_written_bytes", "Bytes written for the last successful checkpoint.")
        .maybe(sizes.map(|saved| saved.written_bytes));
    page.gauge(
        "relive_checkpoint_size_bytes",
        "Bytes of the last successful checkpoint, including everything that it refers to.",
    )
    .maybe(sizes.map(|saved| saved.total_bytes));
    page.gauge("relive_checkpoint_last_failed", "Whether the last checkpoint failed.")
        .is(status.last.as_ref().is_some_and(|last| last.outcome.is_err()));
}
