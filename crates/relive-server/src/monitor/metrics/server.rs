//! The server: connections, memory, checkpoints.

use relive_table::{CheckpointStatus, FinishedCheckpoint};

use crate::monitor::{overview::Server, prometheus::Page};

/// `now` is in seconds since 1970.
pub(super) fn put(page: &mut Page, server: &Server, now: f64) {
    page.gauge("relive_uptime_seconds", "Time since the tables are served.").is(server.uptime.as_secs_f64());
    page.gauge("relive_connections", "Connections of clients.").is(server.connections);
    page.counter("relive_connections_refused_total", "Connections beyond max_connections.")
        .is(server.refused_connections);
    page.counter(
        "relive_connections_cut_total",
        "Connections whose clients were too slow while others waited for room.",
    )
    .is(server.traffic.cut);
    page.gauge("relive_in_flight_bytes", "Bytes on their way between clients and tables.")
        .is(server.traffic.bytes);
    page.gauge("relive_in_flight_max_bytes", "What they may be.").is(server.traffic.max_bytes);
    page.gauge("relive_unread_bytes", "Bytes that clients have sent over HTTP/2 and no stream has read.")
        .is(server.unread_bytes);
    page.gauge("relive_in_flight_waiting_streams", "Streams that wait for room among them.")
        .is(server.traffic.waiting);
    let mut streams = page.gauge("relive_streams", "Streams that are open on them.");
    streams.with(&[("kind", "insert")], server.insert_streams);
    streams.with(&[("kind", "sample")], server.sample_streams);
    memory(page, server);
    checkpoints(page, &server.checkpoints, now);
}

fn memory(page: &mut Page, server: &Server) {
    let memory = &server.memory;
    let chunks = &memory.chunks;
    page.gauge("relive_chunks", "Chunks that live, each counted once.").is(chunks.chunks);
    page.gauge("relive_chunk_encoded_bytes", "Their bytes as stored.").is(chunks.encoded_bytes);
    page.gauge("relive_chunk_raw_bytes", "Their bytes once decoded.").is(chunks.raw_bytes);
    page.gauge("relive_chunk_resident_bytes", "Stored bytes in memory.").is(chunks.resident_bytes());
    page.gauge("relive_chunk_spilled_bytes", "Stored bytes on disk.").is(chunks.spilled_bytes);
    page.gauge("relive_chunk_shared_bytes", "Stored bytes that several tables hold.").is(chunks.shared_bytes);
    page.gauge("relive_memory_max_bytes", "The bound on stored bytes in memory.").maybe(memory.max_bytes);
    page.gauge("relive_memory_reserved_bytes", "Bytes that writers are about to bring.")
        .is(memory.reserved_bytes);
    let waiting = memory.waiters.len() + memory.waiters_not_listed;
    page.gauge("relive_memory_waiters", "Writers that wait for memory.").is(waiting);
    let longest = memory.waiters.first().map_or(0.0, |waiter| waiter.waiting.as_secs_f64());
    page.gauge("relive_memory_longest_wait_seconds", "How long the first of them has waited.").is(longest);
    page.gauge("relive_spill_failing", "Whether chunks could not be moved to disk when that was last tried.")
        .is(memory.spill_error.is_some());
}

fn checkpoints(page: &mut Page, status: &CheckpointStatus, now: f64) {
    let mut all = page.counter("relive_checkpoints_total", "Checkpoints since the server began.");
    all.with(&[("outcome", "saved")], status.num_saved);
    all.with(&[("outcome", "failed")], status.num_failed);
    page.gauge("relive_checkpoint_running", "Whether one is being written.").is(status.running.is_some());
    let counts = status.running.as_ref().map(|running| running.counts);
    page.gauge("relive_checkpoint_done_bytes", "Bytes of it that are written.")
        .maybe(counts.map(|counts| counts.bytes_done));
    page.gauge("relive_checkpoint_expected_bytes", "Bytes that it will write; 0 until that is known.")
        .maybe(counts.map(|counts| counts.bytes_total));
    page.gauge("relive_checkpoint_next_due_seconds", "Time until the next one by the clock.")
        .maybe(status.next_due.map(|due| due.as_secs_f64()));
    let saved = status.last_saved.as_ref();
    let age = |saved: &FinishedCheckpoint| (now - saved.began_at.as_nanos() as f64 / 1e9).max(0.0);
    page.gauge("relive_checkpoint_age_seconds", "Age of what the last one that was written has.")
        .maybe(saved.map(age));
    page.gauge("relive_checkpoint_duration_seconds", "How long that one took.")
        .maybe(saved.map(|saved| saved.took.as_secs_f64()));
    page.gauge("relive_checkpoint_pause_seconds", "The longest time for which it kept others from a table.")
        .maybe(saved.map(|saved| saved.longest_pause.as_secs_f64()));
    let sizes = saved.and_then(FinishedCheckpoint::saved);
    page.gauge("relive_checkpoint_written_bytes", "Bytes that were written for it.")
        .maybe(sizes.map(|saved| saved.written_bytes));
    page.gauge("relive_checkpoint_size_bytes", "Bytes of it and of all that it refers to.")
        .maybe(sizes.map(|saved| saved.total_bytes));
    page.gauge("relive_checkpoint_last_failed", "Whether the one that ended last could not be written.")
        .is(status.last.as_ref().is_some_and(|last| last.outcome.is_err()));
}
