//! Samples of many servers: a lane to each, and a draw for each sample from which one it comes.

mod feed;
mod lane;
mod mixture;

pub(crate) use feed::FleetFeed;
