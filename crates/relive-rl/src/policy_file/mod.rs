//! Policies in files.

mod described;
mod dtypes;
mod files;
mod saved_policy;

pub use saved_policy::SavedPolicy;
