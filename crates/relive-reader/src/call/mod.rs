//! Samples for callers that wait on the spot, without a task of their own.
//!
//! Handing a request to another thread and its answer back costs more than both of them. So the caller's thread does
//! the work itself: a table of this process is asked directly; of a server, each call has a connection to itself for
//! as long as it lasts ([`stream::OwnStream`]), which the caller's thread drives. Idle ones are kept
//! ([`stream::IdleStreams`]).

mod exact;
mod fleet;
mod local;
mod remote;
mod sample_call;
mod stream;

pub use sample_call::SampleCall;
pub use stream::IdleStreams;

pub(crate) use exact::ExactFeed;
