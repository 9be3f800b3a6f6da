//! Samples from many servers: a lane for each server, and a draw of a server for each sample.

mod feed;
mod lane;
mod mixture;
mod order;

pub(crate) use feed::FleetFeed;
