//! The client against a Relive server in the same process, over TCP.

mod common;
mod errors;
mod limits;
mod reconnect;
mod roundtrip;
mod structured;
