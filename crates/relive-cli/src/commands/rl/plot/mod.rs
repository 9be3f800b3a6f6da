//! `relive rl plot`: draws pictures of runs.

mod canvas;
mod curve;
mod curves;
mod kinds;
mod options;
mod pictures;
mod radar;

pub(crate) use canvas::expect_picture;
pub(crate) use options::{Options, curves, run};
pub(crate) use pictures::{curves_svg, radar_svg};
