//! `relive top`: a server in a terminal, live.

mod options;
mod run;
mod state;
mod terminal;
mod view;

pub(crate) use options::Options;
pub(crate) use run::run;
