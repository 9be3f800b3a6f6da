//! Those who use the server, and those who trouble it.

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
