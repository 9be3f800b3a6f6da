//! From steps of an environment to items of a replay table.

mod adder;
mod n_step;
mod row;
mod transition;

pub use adder::Adder;
pub use n_step::NStepReturn;
pub use transition::{TransitionAdder, TransitionColumns};
