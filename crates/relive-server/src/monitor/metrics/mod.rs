//! `/metrics`: the server's existing counters, in Prometheus' format.

mod page;
mod run;
mod server;
mod tables;

pub(super) use page::metrics;
