//! The contents of insert streams on any transport.

mod inserter;
mod items;

pub(crate) use inserter::Inserter;
