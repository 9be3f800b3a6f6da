//! The storage of a table: its content, captures of it, and removed items.

mod capture;
mod common;
mod contents;
mod episodes;
mod freed;
mod items;
mod record;
mod state;

pub use capture::Capture;
pub use common::Common;
pub(crate) use common::Sequence;
pub(crate) use contents::{Admitted, AdmittedMany, Contents};
pub use freed::Freed;
pub(crate) use items::REMOVALS_AHEAD;
pub(crate) use record::{KindId, Record};
pub(crate) use state::{Counters, State};
