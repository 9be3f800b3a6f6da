//! Prefetches memory, so that latencies overlap, and copies small pieces.

use std::hint::black_box;

/// The number of bytes in a cache line.
const LINE_BYTES: usize = 64;

/// The number of cache lines of a payload that are prefetched. The processor prefetches the rest itself.
const TOUCHED_LINES: usize = 8;

/// Prefetches the beginnings of payloads, because the address translation takes the most time.
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

/// Copies the pieces `from`, each of `size` bytes, to `to`, one after the other. Small sizes are copied inline, because
/// a function call takes longer than the copy. A piece with a different size is skipped, and its part of `to` stays
/// unchanged.
pub fn copy_all(to: &mut [u8], from: &[&[u8]], size: usize) {
    fn at_once<const N: usize>(to: &mut [u8], from: &[&[u8]]) {
        for (to, from) in to.as_chunks_mut::<N>().0.iter_mut().zip(from) {
            if let Ok(from) = <&[u8; N]>::try_from(*from) {
                *to = *from;
            }
        }
    }
    match size {
        0 => {}
        1 => at_once::<1>(to, from),
        2 => at_once::<2>(to, from),
        4 => at_once::<4>(to, from),
        8 => at_once::<8>(to, from),
        16 => at_once::<16>(to, from),
        32 => at_once::<32>(to, from),
        64 => at_once::<64>(to, from),
        _ => {
            for (to, from) in to.chunks_exact_mut(size).zip(from) {
                if to.len() == from.len() {
                    to.copy_from_slice(from);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn pieces_of_every_size_are_copied() {
        let from: Vec<u8> = (0..200).collect();
        for len in 0..100 {
            let parts = [&from[..len], &from[1..=len], &from[..len / 2], &from[2..len + 2]];
            let mut to = vec![0xff; 4 * len];
            super::copy_all(&mut to, &parts, len);
            let expected = if len == 0 { Vec::new() } else { vec![0xff; len] };
            let parts = [parts[0], parts[1], &expected, parts[3]];
            assert_eq!(to, parts.concat(), "{len}");
        }
    }
}
