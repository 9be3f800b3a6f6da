//! Serves a store's rows to other machines (`docs/protocol.md`).

mod server;
mod session;

#[cfg(test)]
mod tests;

pub use server::RowServer;
