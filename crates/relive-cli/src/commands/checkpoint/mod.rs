//! `relive checkpoint`: looking at checkpoints, and handling them, of either format.

mod convert;
mod fields;
mod inspect;
mod item;
mod ls;
mod options;
mod prune;
mod run;
mod save;
mod table;
mod verify;

pub(crate) use options::Options;
pub(crate) use run::run;
