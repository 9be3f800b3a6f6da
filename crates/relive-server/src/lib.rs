//! The replay server: gRPC services over an [`Engine`].
//!
//! [`serve`] takes a bound listener, an engine and a future that ends the server; the caller owns sockets and signals.
//! One port speaks dm-reverb's `deepmind.reverb.ReverbService` and Relive's own `relive.v1.ReplayService`.
//!
//! [`HttpServer`] shows metrics, health and a dashboard on an address of its own.
//!
//! Shutting down is orderly. No connection is accepted any more, the tables are closed, waiting operations fail with a
//! status that clients retry elsewhere, confirmations of inserts that did happen are still sent, and connections get
//! [`ServerOptions::drain_timeout`] to end.

mod accepting;
pub mod access;
mod arrivals;
mod bulk;
mod connection;
mod entrance;
mod grpc;
mod inserter;
pub mod limits;
mod listener;
mod metered;
mod monitor;
mod options;
mod seldom;
mod serve;
mod single;
mod traffic;
mod workers;

pub use entrance::{Entrance, Entrances};
pub use listener::{BindError, bind};
pub use monitor::{HttpServer, Monitor};
pub use options::ServerOptions;
pub use relive_engine::{BuildError, Engine, EngineBuilder};
pub use relive_transport::tls;
pub use serve::serve;
pub use single::serve_connection;
