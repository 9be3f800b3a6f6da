//! The inserted data.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use relive_client::{Nest, Tensor};

/// The number of different steps that a client writes cyclically. With only one step, the data would stay in the
/// processor's caches.
const STEPS: u32 = 64;

/// The memory limit for all steps together. A single step may exceed it.
const POOL_BYTES: u32 = 16 << 20;

/// Random steps, used cyclically.
#[derive(Debug)]
pub(super) struct Payload {
    steps: Vec<Nest<Tensor>>,
}

impl Payload {
    /// Returns steps with one column, `bytes` random bytes each.
    pub(super) fn new(bytes: u32) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(u64::from(bytes));
        let steps = (POOL_BYTES / bytes.max(1)).clamp(1, STEPS);
        Self { steps: (0..steps).map(|_| step(&mut rng, bytes)).collect() }
    }

    /// Returns step number `number`, from a cyclic list.
    pub(super) fn step(&self, number: u32) -> &Nest<Tensor> {
        let index = usize::try_from(number).unwrap_or(0) % self.steps.len();
        &self.steps[index]
    }
}

fn step(rng: &mut Xoshiro256PlusPlus, bytes: u32) -> Nest<Tensor> {
    let mut values = vec![0_u8; usize::try_from(bytes).unwrap_or(usize::MAX)];
    rng.fill_bytes(&mut values);
    Nest::Leaf(
        Tensor::from_slice(&values, [bytes]).expect("the shape has as many elements as there are values"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_steps_differ_and_have_the_requested_size() {
        let payload = Payload::new(400);
        let (first, second) = (payload.step(0), payload.step(1));
        assert_ne!(first, second);
        assert_eq!(first.leaves().map(Tensor::size_bytes).sum::<u64>(), 400);
        assert_eq!(payload.step(64), first, "the list begins again");
    }

    #[test]
    fn large_payloads_have_one_step() {
        assert_eq!(Payload::new(10 << 20).steps.len(), 1);
    }
}
