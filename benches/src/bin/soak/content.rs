//! The content of items: bytes that are derived from the item's number, so that every reader can check them.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use relive_client::{Nest, Sample, Tensor};

use relive_benches::Outcome;

/// The number of bytes in a step.
const STEP: usize = 400;

/// The maximum number of steps of an item.
pub(crate) const MAX_STEPS: u32 = 50;

/// Returns the number of steps of an item; most items are short.
fn num_steps(number: u64) -> u32 {
    match number % 16 {
        0 => MAX_STEPS,
        1..4 => 10,
        _ => 1,
    }
}

/// Returns the bytes of all steps; the bytes of every other item are compressible.
fn bytes(number: u64) -> Vec<u8> {
    let mut bytes = vec![0; STEP * num_steps(number) as usize];
    if number.is_multiple_of(2) {
        Xoshiro256PlusPlus::seed_from_u64(number).fill_bytes(&mut bytes);
    } else {
        bytes.fill(number.to_le_bytes()[0]);
    }
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// Returns the steps of an item.
pub(crate) fn steps(number: u64) -> Outcome<Vec<Nest<Tensor>>> {
    let shape = [u32::try_from(STEP)?];
    let step = |bytes: &[u8]| Ok(Nest::Leaf(Tensor::from_slice(bytes, shape)?));
    bytes(number).chunks(STEP).map(step).collect()
}

/// Returns the number of an item; checks that the item's bytes match it.
pub(crate) fn number(sample: &Sample) -> Outcome<u64> {
    let columns = sample.columns()?;
    let found: &[u8] = columns.first().ok_or("an item without columns")?.as_slice()?;
    let number = u64::from_le_bytes(*found.first_chunk().ok_or("an item without its number")?);
    match found == bytes(number) {
        true => Ok(number),
        false => {
            Err(format!("the item with number {number} has other bytes than it was written with").into())
        }
    }
}
