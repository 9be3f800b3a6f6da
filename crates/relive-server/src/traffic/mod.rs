//! Bounds the bytes in flight between clients and tables, over all connections.
//!
//! The bound applies to the memory that the server holds on behalf of clients: the received part of an insert request
//! until its items are passed to their tables, and samples from their assembly until the client's system has received
//! them. Announced bytes do not count, because announcing them costs a client nothing. A stream that needs room takes a
//! [`Load`] from its [`StreamBudget`] and waits while there is none. This applies to its first bytes and to all later
//! ones; requests that have begun take precedence.
//!
//! Requests that have begun and wait for each other would deadlock, and it must also be possible to transfer a load
//! that is larger than the bound. One load at a time, namely the first that needs to, may therefore exceed the bound
//! until it is done. The total thus never exceeds the bound by more than the size of the largest request or batch. This
//! load waits only for its client, as does every other load that holds bytes and is not waiting for room. The waiting
//! streams therefore have to watch only the clients: while others wait, each load must be transferred at a minimum
//! rate; otherwise, its connection is dropped. If a load is abandoned, including by the end of its connection, the time
//! that it wasted is charged to the next load of its host.

mod account;
mod budget;
mod host;
mod load;
mod meter;
mod metered;
#[cfg(test)]
mod tests;
mod wait;
mod windows;

pub(crate) use account::{Traffic, TrafficStatus};
pub(crate) use budget::{ConnectionBudget, StreamBudget};
pub(crate) use load::Load;
pub(crate) use metered::Metered;
pub(crate) use windows::Window;
