//! `/metrics`: what the server counts anyway, in Prometheus' format.

mod page;
mod run;
mod server;
mod tables;

pub(super) use page::metrics;
