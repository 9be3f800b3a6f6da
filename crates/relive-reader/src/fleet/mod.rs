//! Samples of many servers: a lane for each server, and a draw of the server for each sample.

mod feed;
mod lane;
mod mixture;

pub(crate) use feed::FleetFeed;
