//! The replay server: gRPC services over an [`Engine`].
//!
//! [`serve`] takes a bound listener, an engine, and a future that ends the server; sockets and signals are left to the
//! caller. One port serves both dm-reverb's `deepmind.reverb.ReverbService` and Relive's own `relive.v1.ReplayService`.
//!
//! [`HttpServer`] serves metrics, health and a dashboard on a separate address.
//!
//! The shutdown is orderly. The server accepts no more connections and closes the tables. Waiting operations fail with
//! a status that clients retry elsewhere; confirmations of completed inserts are still sent. Connections have
//! [`ServerOptions::drain_timeout`] to end.

pub mod access;
mod bulk;
mod grpc;
mod insert;
pub mod limits;
mod listening;
mod monitor;
mod options;
mod serve;
mod services;
mod traffic;

pub use listening::{BindError, Entrance, Entrances, bind};
pub use monitor::{HttpServer, Monitor};
pub use options::ServerOptions;
pub use relive_engine::{BuildError, Engine, EngineBuilder};
pub use relive_transport::tls;
pub use serve::{serve, serve_connection};
