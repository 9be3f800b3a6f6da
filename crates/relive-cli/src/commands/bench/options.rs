//! The options.

use std::time::Duration;

use clap::{Args, ValueEnum};
use relive_client::TransportChoice;
use serde::Serialize;

use crate::server::Target;
use crate::units::parse_seconds;

/// Largest item: far above any in use, and small enough for one such item per client to fit a machine.
const MAX_ITEM_BYTES: i64 = 256 << 20;

/// Clients of one kind, each of which takes a thread and a connection.
const MAX_CLIENTS: i64 = 1_000;

/// Items of a batch, which are in memory together.
const MAX_BATCH: i64 = 1_000_000;

/// Options of `relive bench`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(super) target: Target,
    /// What the clients do
    #[arg(value_enum)]
    pub(super) load: Load,
    /// Table to load; may be left out when the server has only one
    #[arg(long, value_name = "NAME")]
    pub(super) table: Option<String>,
    /// Bytes of an inserted item: one step of random uint8 values, which do not compress
    #[arg(long, default_value = "400", value_parser = clap::value_parser!(u32).range(1..=MAX_ITEM_BYTES))]
    pub(super) bytes: u32,
    /// Clients, each with its own connection; `mixed` runs so many of either kind
    #[arg(long, default_value = "2", value_parser = clap::value_parser!(u32).range(1..=MAX_CLIENTS))]
    pub(super) clients: u32,
    /// How items and batches travel; `auto` is the fastest way there is
    #[arg(long, value_enum, default_value = "auto")]
    pub(super) transport: Way,
    /// How long to measure
    #[arg(long, default_value = "10", value_parser = parse_seconds)]
    pub(super) seconds: Duration,
    /// Items between two flushes of an inserting client, and samples of a batch of a sampling one
    #[arg(long, default_value = "256", value_parser = clap::value_parser!(u32).range(1..=MAX_BATCH))]
    pub(super) batch: u32,
    /// Items to insert before the measurement, so that an empty table can be sampled
    #[arg(long, value_name = "ITEMS", default_value_t = 0)]
    pub(super) fill: u32,
    /// Print the result in one line, and nothing else
    #[arg(long)]
    pub(super) json: bool,
}

/// The ways to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Way {
    /// Shared memory if the server is a process of this machine and user, otherwise TCP
    Auto,
    /// TCP
    Tcp,
    /// A Unix socket
    Unix,
    /// Shared memory
    Shm,
}

impl From<Way> for TransportChoice {
    fn from(way: Way) -> Self {
        match way {
            Way::Auto => Self::Auto,
            Way::Tcp => Self::Tcp,
            Way::Unix => Self::Unix,
            Way::Shm => Self::SharedMemory,
        }
    }
}

/// What clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Load {
    /// Insert items of one step
    Insert,
    /// Sample batches and decode them
    Sample,
    /// Both at once
    Mixed,
}

impl Load {
    pub(super) fn inserts(self) -> bool {
        matches!(self, Self::Insert | Self::Mixed)
    }

    pub(super) fn samples(self) -> bool {
        matches!(self, Self::Sample | Self::Mixed)
    }
}
