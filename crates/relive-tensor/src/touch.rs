//! Memory that is going to be read, fetched ahead: many waits for it become one.

use std::hint::black_box;

/// Bytes that memory is fetched in.
const LINE_BYTES: usize = 64;

/// Lines of a payload that are fetched ahead; of larger ones the processor fetches the rest by itself.
const TOUCHED_LINES: usize = 8;

/// Brings near where payloads begin: finding out where a page is takes longest.
pub fn touch_starts<'a>(payloads: impl Iterator<Item = &'a [u8]>) {
    black_box(payloads.fold(0, |seen, payload| seen ^ payload.first().unwrap_or(&0)));
}

/// Brings near what is going to be read of payloads.
pub fn touch<'a>(payloads: impl Iterator<Item = &'a [u8]>) {
    let lines = payloads.flat_map(|payload| payload.iter().step_by(LINE_BYTES).take(TOUCHED_LINES));
    black_box(lines.fold(0, |seen, byte| seen ^ byte));
}
