//! The two random draws that selectors need.

use rand_core::Rng;

/// Draws an index below `len` uniformly. `len` must not be zero.
///
/// Uses multiply-shift instead of a rejection loop, so that every draw takes exactly one random word and histories can
/// be replayed. The bias is below `len / 2^64`, which no practical number of draws could reveal.
pub(crate) fn index_below<R: Rng + ?Sized>(rng: &mut R, len: usize) -> usize {
    let product = u128::from(rng.next_u64()) * (len as u128);
    usize::try_from(product >> 64).expect("the product's upper half is below len, which is a usize")
}

/// Draws a number in [0, 1) uniformly. The number is a multiple of 2^-53.
pub(crate) fn unit<R: Rng + ?Sized>(rng: &mut R) -> f64 {
    const STEP: f64 = 1.0 / (1_u64 << 53) as f64;
    (rng.next_u64() >> 11) as f64 * STEP
}

#[cfg(test)]
mod tests {
    use core::convert::Infallible;

    use rand_core::TryRng;

    use super::*;

    struct Always(u64);

    impl TryRng for Always {
        type Error = Infallible;
        fn try_next_u32(&mut self) -> Result<u32, Infallible> {
            unreachable!("selectors draw 64-bit words")
        }
        fn try_next_u64(&mut self) -> Result<u64, Infallible> {
            Ok(self.0)
        }
        fn try_fill_bytes(&mut self, _: &mut [u8]) -> Result<(), Infallible> {
            unreachable!("selectors draw 64-bit words")
        }
    }

    #[test]
    fn extreme_words_stay_in_range() {
        assert_eq!(index_below(&mut Always(0), 7), 0);
        assert_eq!(index_below(&mut Always(u64::MAX), 7), 6);
        assert_eq!(index_below(&mut Always(u64::MAX), 1), 0);
        assert_eq!(index_below(&mut Always(1 << 63), 8), 4);
        assert_eq!(unit(&mut Always(0)), 0.0);
        assert!(unit(&mut Always(u64::MAX)) < 1.0);
        assert_eq!(unit(&mut Always(1 << 63)), 0.5);
    }
}
