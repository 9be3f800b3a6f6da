//! The prefetches, of addresses, values and payloads.
#![expect(
    unsafe_code,
    reason = "the instruction takes an address; it reads nothing that a program could observe"
)]

/// The number of bytes in a cache line.
const LINE_BYTES: usize = 64;

/// The number of cache lines of a payload that are prefetched. The processor prefetches the rest itself.
const PAYLOAD_LINES: usize = 8;

/// Prefetches the cache line of an address, which may be any address, into the second-level cache.
///
/// The second level takes far more requests at a time than the first, and a line in it is read within a few cycles, which
/// the processor hides.
#[inline]
pub fn prefetch<T: ?Sized>(address: *const T) {
    let address = address.cast::<u8>();
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction is a hint, which has no effect if the address is invalid.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(address.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: As above.
    unsafe {
        std::arch::asm!("prfm pldl2keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}

/// Prefetches all cache lines of some bytes.
#[inline]
pub fn prefetch_bytes(start: *const u8, len: usize) {
    // The first line may begin before the first byte.
    let before = start.addr() % LINE_BYTES;
    for offset in (0..before + len).step_by(LINE_BYTES) {
        prefetch(start.wrapping_sub(before).wrapping_add(offset));
    }
}

/// Prefetches all cache lines of a value.
#[inline]
pub fn prefetch_value<T>(value: &T) {
    prefetch_bytes(std::ptr::from_ref(value).cast(), size_of::<T>());
}

/// Prefetches only the beginnings of payloads, because most of the time is spent on address translation.
pub fn prefetch_starts<'a>(payloads: impl Iterator<Item = &'a [u8]>) {
    payloads.for_each(|payload| prefetch(payload));
}

/// Prefetches payloads.
pub fn prefetch_payloads<'a>(payloads: impl Iterator<Item = &'a [u8]>) {
    for payload in payloads {
        for line in payload.chunks(LINE_BYTES).take(PAYLOAD_LINES) {
            prefetch(line);
        }
        // A small payload may extend into the next cache line.
        if let Some(last) = payload.last() {
            prefetch(last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_address_and_any_payload_can_be_prefetched() {
        for address in [0, 1, 63, 1 << 20, usize::MAX] {
            prefetch(std::ptr::without_provenance::<u64>(address));
        }
        prefetch_value(&());
        prefetch_value(&[7_u64; 100]);
        let bytes = [1_u8; 1_000];
        prefetch_starts([&bytes[..0], &bytes[3..]].into_iter());
        prefetch_payloads([&bytes[..0], &bytes[..1], &bytes[1..]].into_iter());
        assert_eq!(bytes, [1; 1_000], "a prefetch changes nothing");
    }
}
