//! Bytes on their way between clients and tables, over all connections, and the bound on them.
//!
//! What counts is what the server holds for a client alone: what has come of an insert request until its items are
//! handed to their tables, and samples from when they are put together until the client's side of the system has taken
//! them. Announcements do not count: they cost clients nothing. Whoever needs room takes a [`Load`] from the
//! [`StreamBudget`] of its stream, and waits while there is none, with its first bytes as with all that come after
//! them; requests that have begun go before those that have not.
//!
//! Requests that have begun and wait for each other would wait for ever, and what is larger than the bound must pass,
//! too. So one load at a time may go beyond the bound until it is done, the first that needs to: all together are never
//! more than the bound and one largest request or batch. Such a load waits for nothing but its client, and so does
//! every other that holds bytes, unless it waits for room. So those who wait need only watch the clients: each load has
//! to move at a rate while others wait, and the connection of one that does not is cut. Who gives a load up, by a
//! connection that is cut or ends, too, hands the time that it has wasted on to the next one of its host.

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
