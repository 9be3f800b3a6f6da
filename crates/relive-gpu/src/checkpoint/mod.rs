//! Checkpoints: a store in a folder, and a store out of it (`docs/gpu-store-format.md`).

mod data;
mod load;
mod manifest;
mod names;
mod save;

#[cfg(test)]
mod tests;

pub use load::Checkpoint;
use names::{LOCK, MANIFEST};
pub use save::Saved;
