//! What insert streams bring, whichever way it comes.

mod inserter;
mod items;

pub(crate) use inserter::Inserter;
