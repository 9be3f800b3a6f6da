//! The client against a Relive server in the same process, over TCP.

#[cfg(test)]
mod common;
#[cfg(test)]
mod errors;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod reconnect;
#[cfg(test)]
mod roundtrip;
mod spawn;
#[cfg(test)]
mod structured;
