//! Policies as files.

mod described;
mod files;
mod saved_policy;

pub use saved_policy::{MakeAgent, SavedPolicy};
