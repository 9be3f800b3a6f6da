//! Runs a server: accepts connections, starts threads, and shuts down.

mod connection;
mod load;
mod one_connection;
mod server;
#[cfg(test)]
mod tests;
mod workers;

pub use one_connection::serve_connection;
pub use server::serve;
