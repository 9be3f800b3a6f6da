//! A model of tables, and random histories that run it alongside a real table.

mod history;
mod naive;

pub use history::{Op, configs, follow, histories};
pub use naive::NaiveTable;
