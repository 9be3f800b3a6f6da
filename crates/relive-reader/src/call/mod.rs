//! Calls for callers that block their thread, without a task.
//!
//! Passing a request to another thread and its response back costs more than processing both of them, so the caller's
//! thread does the work itself. It calls a table in this process directly. For a server, each call has its own
//! connection ([`own::OwnStream`]), which the caller's thread drives. Idle connections are kept for later calls
//! ([`own::IdleStreams`]).

mod exact;
mod fleet;
mod local;
mod own;
mod remote;
mod sample_call;
mod stream;
mod unary_call;

pub use own::IdleStreams;
pub use sample_call::SampleCall;
pub use unary_call::UnaryCall;

pub(crate) use exact::ExactFeed;
pub(crate) use remote::GRACE;
