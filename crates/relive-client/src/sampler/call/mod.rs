//! Samples for a caller who waits on the spot, without a task of his own.
//!
//! Handing a request to another thread and its answer back costs more than both of them. So the caller's thread does the work
//! itself: a table of this process is asked directly; of a server, each call has a connection to itself for as long as it lasts
//! ([`stream::OwnStream`]), which the caller's thread drives. Idle ones are kept ([`pool::StreamPool`]).

mod exact;
mod local;
mod many;
mod pool;
mod remote;
mod sample_call;
mod stream;

pub use sample_call::SampleCall;

pub(crate) use exact::ExactFeed;
pub(crate) use pool::StreamPool;
