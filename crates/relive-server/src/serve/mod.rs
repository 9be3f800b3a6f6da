//! Runs a server: accepts connections, starts threads, and shuts down.

mod connection;
mod one_connection;
mod server;
mod workers;

pub use one_connection::serve_connection;
pub use server::serve;
