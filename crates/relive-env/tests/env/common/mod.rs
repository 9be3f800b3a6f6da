//! Helpers of several test files.
#![expect(clippy::cast_precision_loss, reason = "counts are small")]

pub mod toy;

use relive_env::{Action, Buffer, Environment, TimeStep};

/// The 64-bit FNV-1a hash.
pub struct Fnv(pub u64);

impl Fnv {
    pub fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub fn add(&mut self, word: u32) {
        self.0 = (self.0 ^ u64::from(word)).wrapping_mul(0x0100_0000_01b3);
    }

    pub fn add_bytes(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.add(u32::from(*byte)));
    }

    pub fn add_words(&mut self, bytes: &[u8]) {
        bytes.chunks_exact(4).for_each(|word| self.add(u32::from_le_bytes(word.try_into().unwrap())));
    }
}

/// An environment with its observation.
pub struct Played<E> {
    pub environment: E,
    pub buffer: Buffer,
}

impl<E: Environment> Played<E> {
    pub fn new(environment: E) -> Self {
        let buffer = Buffer::for_nest(&environment.spec().observations, 1).unwrap();
        Self { environment, buffer }
    }

    pub fn reset(&mut self) -> TimeStep {
        self.environment.reset(self.buffer.view_mut()).unwrap()
    }

    pub fn step(&mut self, action: Action<'_>) -> TimeStep {
        self.environment.step(action, self.buffer.view_mut()).unwrap()
    }

    pub fn observation(&self) -> &[f32] {
        self.buffer.leaf::<f32>(0).unwrap()
    }

    pub fn bytes(&self) -> &[u8] {
        self.buffer.leaf_bytes(0).unwrap()
    }
}
