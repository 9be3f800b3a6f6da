//! Prefetches memory, so that latencies overlap.

use std::hint::black_box;

/// The number of bytes in a cache line.
const LINE_BYTES: usize = 64;

/// The number of cache lines of a payload that are prefetched. The processor prefetches the rest itself.
const TOUCHED_LINES: usize = 8;

/// Prefetches only the beginnings of payloads, because most of the time is spent on address translation.
pub fn touch_starts<'a>(payloads: impl Iterator<Item = &'a [u8]>) {
    black_box(payloads.fold(0, |seen, payload| seen ^ payload.first().unwrap_or(&0)));
}

/// Prefetches payloads.
pub fn touch<'a>(payloads: impl Iterator<Item = &'a [u8]>) {
    let mut seen = 0;
    for payload in payloads {
        for line in 0..TOUCHED_LINES {
            let Some(byte) = payload.get(line * LINE_BYTES) else { break };
            seen ^= byte;
        }
        // A small payload may extend into the next cache line.
        seen ^= payload.last().unwrap_or(&0);
    }
    black_box(seen);
}
