//! Checkpoints: saving a store to a folder, and loading it (`docs/gpu-store-format.md`).

mod data;
mod load;
mod manifest;
mod save;

#[cfg(test)]
mod tests;

pub use load::Checkpoint;
pub use save::Saved;
