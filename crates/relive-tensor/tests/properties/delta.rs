//! Compares delta coding with a model that uses wide integers.

use proptest::prelude::*;
use relive_tensor::Tensor;
use relive_tensor::codec::delta;

use crate::strategies::batches;

/// Returns the elements of an integer tensor as wide numbers.
fn numbers(bytes: &[u8], size: usize) -> Vec<u128> {
    let number = |element: &[u8]| element.iter().rev().fold(0, |n, &byte| n << 8 | u128::from(byte));
    bytes.chunks(size).map(number).collect()
}

/// Differences as defined: `out[0] = in[0]`, `out[i] = in[i] - in[i-1]` modulo `2^w`.
fn model(tensor: &Tensor, bytes: &[u8], size: usize) -> Vec<u128> {
    let input = numbers(bytes, size);
    let rows = usize::try_from(tensor.shape().rows().unwrap_or(0)).expect("small");
    let width = input.len().checked_div(rows).unwrap_or(0);
    let modulus = 1 << (8 * size);
    let difference =
        |i: usize| if i < width { input[i] } else { (modulus + input[i] - input[i - width]) % modulus };
    (0..input.len()).map(difference).collect()
}

proptest! {
    #[test]
    fn delta_coding_follows_the_definition_and_round_trips(tensor in batches()) {
        let (Some(bytes), Some(size)) = (tensor.bytes(), tensor.dtype().size_bytes()) else { return Ok(()) };
        let mut coded = bytes.to_vec();
        delta::encode(tensor.dtype(), tensor.shape(), &mut coded);
        if delta::applies(tensor.dtype(), tensor.shape()) {
            prop_assert_eq!(numbers(&coded, size), model(&tensor, bytes, size));
        } else {
            prop_assert_eq!(&coded, bytes);
        }
        delta::decode(tensor.dtype(), tensor.shape(), &mut coded);
        prop_assert_eq!(&coded, bytes);
    }
}
