//! One way to start a server: tables, a bound on memory, a disk tier, checkpoints, TLS, tokens and the dashboard
//! become a running [`Server`].
//!
//! The facade, the program `relive` and the Python package only translate their users' settings into a
//! [`ServerBuilder`]. The order in which a server starts is here alone:
//!
//! 1. certificates, tokens, addresses and rules of tables are checked, and a fixed port is taken, before anything is
//!    loaded;
//! 2. metrics and the dashboard are served, so that it can be seen that a checkpoint is being loaded;
//! 3. the folder of the disk tier and that of the checkpoints are locked, and the checkpoint is loaded;
//! 4. clients can connect.
//!
//! And so is the order in which it stops: no connection is accepted any more, the tables are closed, confirmations of
//! inserts that did happen are sent, the last checkpoint is written, then both folders are released.
//!
//! What an operator should know goes to the log, under the target `relive::server`.

mod address;
mod background;
mod begin;
mod builder;
mod checkpoints;
mod endpoint;
mod error;
mod server;
mod words;

pub use address::Address;
pub use background::{Background, Serve};
pub use builder::ServerBuilder;
pub use checkpoints::Checkpoints;
pub use endpoint::{Bound, Endpoint};
pub use error::{Error, ErrorKind, Result};
pub use relive_checkpoint::Format;
pub use relive_engine::Rules;
pub use server::Server;
pub use words::Words;
