//! Memory that is going to be read, fetched ahead, so that many waits for it become one; and the copying of small pieces.

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
    let seen = payloads.fold(0, |seen, payload| {
        let lines = payload.iter().step_by(LINE_BYTES).take(TOUCHED_LINES);
        // A small payload may end in the line behind the one that it begins in.
        lines.chain(payload.last()).fold(seen, |seen, byte| seen ^ byte)
    });
    black_box(seen);
}

/// Copies `from` to `to`, which is as long. Sizes of a number or two are moved at once; calling a function for them takes longer than the copy.
///
/// # Panics
/// If the lengths differ.
#[inline]
pub fn copy(to: &mut [u8], from: &[u8]) {
    fn at_once<const N: usize>(to: &mut [u8], from: &[u8]) {
        if let (Some(to), Some(from)) = (to.first_chunk_mut::<N>(), from.first_chunk::<N>()) {
            *to = *from;
        }
    }
    assert_eq!(to.len(), from.len(), "a copy is as long as what is copied");
    match from.len() {
        1 => at_once::<1>(to, from),
        4 => at_once::<4>(to, from),
        8 => at_once::<8>(to, from),
        16 => at_once::<16>(to, from),
        32 => at_once::<32>(to, from),
        _ => to.copy_from_slice(from),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn pieces_of_every_size_are_copied() {
        let from: Vec<u8> = (0..100).collect();
        for len in 0..100 {
            let mut to = vec![0xff; len];
            super::copy(&mut to, &from[..len]);
            assert_eq!(to, from[..len]);
        }
    }
}
