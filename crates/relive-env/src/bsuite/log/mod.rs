//! bsuite's log of an agent.

mod csv;
mod logged;
mod row;

pub use csv::{read_csv, write_csv};
pub use logged::{Logged, is_logged_episode};
pub use row::LogRow;
