//! Starts servers: tables, a bound on memory, a disk tier, checkpoints, TLS, tokens and the dashboard become a running
//! [`Server`].
//!
//! The facade, the program `relive` and the Python package only translate their users' settings into a
//! [`ServerBuilder`]. Only this crate defines the order of startup:
//!
//! 1. check certificates, tokens, addresses and rules of tables, and bind a fixed port, before anything is loaded;
//! 2. serve metrics and the dashboard, which then show the progress of loading;
//! 3. lock the folders of the disk tier and of the checkpoints, and load the checkpoint;
//! 4. let clients connect.
//!
//! It also defines the order of shutdown: accept no more connections, close the tables, send the confirmations of
//! completed inserts, write the last checkpoint, release both folders.
//!
//! Messages for operators are logged under the target `relive::server`.

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
