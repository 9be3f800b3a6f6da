//! Many servers as one.
//!
//! Servers do not know of each other: all that makes them one is here. [`fleet::Many`] is the set, in which each
//! [`server::Server`] has a task that watches it ([`watch`]) and, if names are to be resolved, one looks for servers that come and
//! go ([`resolve`]). Writers ask for a place for each of their streams ([`place`]). A reader has a lane to each server and draws
//! for each sample from which one it comes ([`feed`], [`mixture`]). Calls go to the server that owns the key ([`owners`]) or to
//! all ([`ask`], [`calls`]), and what servers say of themselves is added up ([`merge`]).

mod address;
mod ask;
mod calls;
mod changes;
mod feed;
mod fleet;
mod health;
mod lane;
mod listing;
mod merge;
mod mixture;
mod owners;
mod place;
mod resolve;
mod server;
mod watch;

pub use ask::PartialFailure;
pub use changes::{ServerChange, ServerEvent, ServerStanding, ServerState};

pub(crate) use address::{is_many, sources};
pub(crate) use feed::ManyFeed;
pub(crate) use fleet::Many;
pub(crate) use place::Place;
