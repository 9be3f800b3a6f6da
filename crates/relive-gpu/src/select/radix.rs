//! Sorts integers without comparisons.

const DIGIT_BITS: u32 = 11;
const DIGITS: usize = 1 << DIGIT_BITS;

/// Returns the positions of `keys` in ascending order of the keys; positions of equal keys ascend. There are at most
/// 2³² keys.
pub(crate) fn order(keys: &[u64]) -> Vec<u32> {
    let largest = keys.iter().copied().max().unwrap_or(0);
    let passes = (u64::BITS - largest.leading_zeros()).div_ceil(DIGIT_BITS);
    let mut order: Vec<u32> = (0..).take(keys.len()).collect();
    let mut next = vec![0; keys.len()];
    for pass in 0..passes {
        let digit = |position: u32| {
            let key = keys[position as usize] >> (pass * DIGIT_BITS);
            #[expect(clippy::cast_possible_truncation, reason = "11 bits")]
            let digit = key as usize & (DIGITS - 1);
            digit
        };
        let mut places = [0u32; DIGITS];
        for position in &order {
            places[digit(*position)] += 1;
        }
        let mut begin = 0;
        for place in &mut places {
            begin += std::mem::replace(place, begin);
        }
        for position in &order {
            let place = &mut places[digit(*position)];
            next[*place as usize] = *position;
            *place += 1;
        }
        std::mem::swap(&mut order, &mut next);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_match_a_stable_sort() {
        for shift in [0, 20, 43, 58] {
            let keys: Vec<u64> =
                (0..5_000u64).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> shift).collect();
            let mut sorted: Vec<u32> = (0..5_000).collect();
            sorted.sort_by_key(|position| keys[*position as usize]);
            assert_eq!(order(&keys), sorted);
        }
        assert_eq!(order(&[0, 0]), [0, 1]);
        assert_eq!(order(&[]), [0u32; 0]);
    }
}
