//! The state shared by all transports, gRPC and the bulk path: the engine, its counters, and errors as statuses.

mod shared;
pub(crate) mod status;
mod structure_tracker;

pub(crate) use shared::{LocalSocket, Services, Stop, StreamCount, run_blocking};
pub(crate) use structure_tracker::StructureTracker;
