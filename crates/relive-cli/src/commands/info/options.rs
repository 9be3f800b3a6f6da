//! What a user may choose.

use std::time::Duration;

use clap::Args;

use crate::server::Target;
use crate::units::parse_seconds;

/// Options of `relive info`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(super) target: Target,
    /// Print JSON; with --watch, one line for each look
    #[arg(long)]
    pub(super) json: bool,
    /// Look again and again, every so many seconds [default: 2], until interrupted
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2", value_parser = parse_seconds)]
    pub(super) watch: Option<Duration>,
}
