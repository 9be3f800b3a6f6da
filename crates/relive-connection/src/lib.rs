//! The connection to one replay server, or to the tables in this process: the lowest layer of the client.
//!
//! [`Connection`] makes calls with one request and one response over gRPC, and negotiates the transport for bulk data
//! ([`Dialer`]). [`Local`] has the same calls for an engine in this process. `relive-client` combines them with writers
//! and readers.
#![forbid(unsafe_code)]

mod address;
mod answer;
mod calls;
mod channel;
mod connection;
mod dialer;
mod error;
mod local;
mod names;
mod operate;
mod options;
mod remembered;
mod remote;
mod report;
mod returned;
mod transport;
mod waiting;

pub use answer::{
    SAMPLE_TIMEOUT, engine_error, is_limiter_timeout, is_transient_status, status_error, timeout_error,
};
pub use channel::{Channels, GrpcChannel};
pub use connection::Connection;
pub use dialer::{Dialer, SilentConnections, refusal};
pub use error::{Error, Result};
pub use local::Local;
pub use names::{Proposal, Proposals};
pub use options::ClientOptions;
pub use relive_table::ErrorKind;
pub use relive_tensor::ChunkTotals;
pub use remote::ReverbStub;
pub use report::{
    MemoryStatus, ServerInfo, ServerStatus, StateId, TableStatus, Waiter, WaiterOperation, Waits,
};
pub use transport::{Transport, TransportChoice};
pub use waiting::{Backoff, Deadline, HEALTHY_LIFE, Timer};
