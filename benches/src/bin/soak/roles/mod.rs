//! The roles that use the server, and those that disturb it.

mod checker;
mod checkpointer;
mod killer;
mod reader;
mod run;
mod stranger;
mod updater;
mod watcher;
mod writer;

pub(crate) use run::run;
