//! `relive checkpoint`: inspects and manages checkpoints of either format.

mod common;
mod convert;
mod fields;
mod inspect;
mod item;
mod ls;
mod options;
mod prune;
mod save;
mod verify;

pub(crate) use options::{Options, run};
