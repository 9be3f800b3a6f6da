//! Configuration of a server: TOML, or dm-reverb's textproto.
//!
//! Every error is one line that begins with the file, and with the line number if it is known.

mod address;
mod checkpoints;
mod document;
mod limiter;
mod load;
mod model;
mod place;
mod problem;
mod sampler;
mod signature;
mod tables;
mod textproto;
mod toml_format;

pub(crate) use address::{parse_bind, parse_socket};
pub(crate) use load::load;
pub(crate) use model::Config;

#[cfg(test)]
mod tests;
