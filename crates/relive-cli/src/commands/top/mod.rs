//! `relive top`: a server in a terminal, live.

mod run;
mod state;
mod terminal;
mod view;

pub(crate) use run::{Options, run};
