//! Checkpoints: a store in a folder, and a store out of it (`docs/gpu-store-format.md`).

mod data;
mod load;
mod manifest;
mod save;

#[cfg(test)]
mod tests;

pub use load::Checkpoint;
pub use save::Saved;
