//! `relive top`: a live view of a server in a terminal.

mod run;
mod state;
mod terminal;
mod view;

pub(crate) use run::{Options, run};
