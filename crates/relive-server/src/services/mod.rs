//! The state that all transports share, gRPC and the bulk path: the engine, its counters, and errors as statuses.

mod shared;
pub(crate) mod status;
mod told;

pub(crate) use shared::{Local, Services, Stop, StreamCount, run_blocking};
pub(crate) use told::Told;
