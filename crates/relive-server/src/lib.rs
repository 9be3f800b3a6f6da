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

pub mod access;
mod bulk;
mod grpc;
mod insert;
pub mod limits;
mod listening;
mod log_throttle;
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
