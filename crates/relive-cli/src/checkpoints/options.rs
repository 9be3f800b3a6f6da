//! Flags, and the keys of configurations that say the same.

use std::time::Duration;

use clap::Args;

use super::{ConfigFrom, FormatChoice};
use crate::units::parse_duration;

/// Options about checkpoints.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Checkpoints")]
pub(crate) struct Checkpoints {
    /// Folder or bucket (s3://…, gs://…, az://…) of checkpoints: the newest one is loaded at the start, and new ones are
    /// written there: when a client asks, every so often, and at the end [default: the configuration's, else none]
    #[arg(long, value_name = "DIR|URL")]
    pub(super) checkpoint_dir: Option<String>,
    /// Write a checkpoint every so often, as in 90s, 10m or 1h, at least 1s apart [default: the configuration's, else never]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(super) checkpoint_every: Option<Duration>,
    /// How many checkpoints to keep: older ones are removed once a newer one is whole [default: the configuration's, else 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) checkpoint_keep: Option<u32>,
    /// Format of the checkpoints that are written; either is loaded [default: the configuration's, else relive]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(super) checkpoint_format: Option<FormatChoice>,
    /// Whose rules count where the configuration and the checkpoint that is loaded differ [default: the configuration's, else
    /// checkpoint]
    #[arg(long, value_enum, value_name = "WHOSE")]
    pub(super) config_from: Option<ConfigFrom>,
    /// Take tables that clients have added to an earlier server: those that the checkpoint has and the configuration has not, with the
    /// rules that they have there
    #[arg(long)]
    pub(super) checkpoint_tables: bool,
    /// Write no checkpoint when the server ends
    #[arg(long)]
    pub(super) no_checkpoint_at_shutdown: bool,
    /// Load this checkpoint at the start, instead of the newest one of --checkpoint-dir
    #[arg(long, value_name = "PATH|URL")]
    pub(super) checkpoint: Option<String>,
    /// Load what is whole of a damaged checkpoint, and log what is not
    #[arg(long)]
    pub(super) salvage: bool,
}

/// What a configuration says of checkpoints.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Keys {
    /// `checkpoint_dir`
    pub(crate) dir: Option<String>,
    /// `checkpoint_every`
    pub(crate) every: Option<Duration>,
    /// `checkpoint_keep`
    pub(crate) keep: Option<u32>,
    /// `checkpoint_format`
    pub(crate) format: Option<FormatChoice>,
    /// `config_from`
    pub(crate) config_from: Option<ConfigFrom>,
    /// `checkpoint_at_shutdown`
    pub(crate) at_shutdown: Option<bool>,
}
