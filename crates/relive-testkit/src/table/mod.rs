//! A model of tables, and random histories to run it beside a real one.

mod history;
mod naive;

pub use history::{Op, configs, follow, histories};
pub use naive::NaiveTable;
