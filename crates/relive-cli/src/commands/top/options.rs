//! What a user may choose.

use std::time::Duration;

use clap::Args;

use crate::server::Target;
use crate::units::parse_seconds;

/// Options of `relive top`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(super) target: Target,
    /// Time between two looks
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_seconds)]
    pub(super) interval: Duration,
}
