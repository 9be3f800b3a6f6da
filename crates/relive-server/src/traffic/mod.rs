//! Bounds the bytes in flight between clients and tables, over all connections.
//!
//! The bound counts the memory that the server holds for a single client: the received part of an insert request until
//! its items are handed to their tables, and samples from their assembly until the client's side of the system has
//! taken them. Announced bytes do not count: they cost clients nothing. A stream that needs room takes a [`Load`] from
//! its [`StreamBudget`] and waits while there is none, for its first bytes as for all later ones; requests that have
//! begun take precedence.
//!
//! Begun requests that wait for each other would deadlock, and a load larger than the bound must pass, too. One load at
//! a time, the first that needs to, may therefore exceed the bound until it is done: the total never exceeds the bound
//! plus one largest request or batch. Such a load waits only for its client, and so does every other load that holds
//! bytes, unless it waits for room. The waiting streams therefore need only watch the clients: each load must move at a
//! minimum rate while others wait, and the connection of one that does not is dropped. A load that is abandoned, also
//! when a connection is dropped or ends, passes the time that it wasted on to the next load of its host.

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
pub(crate) use budget::{Line, StreamBudget};
pub(crate) use load::Load;
pub(crate) use metered::Metered;
pub(crate) use windows::Window;
