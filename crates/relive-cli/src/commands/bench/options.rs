//! The options.

use std::time::Duration;

use clap::{Args, ValueEnum};
use relive_client::TransportChoice;
use serde::Serialize;

use crate::server::Target;
use crate::units::parse_seconds;

/// The maximum size of an item. It is far above any size in use, but small enough that one such item per client fits in
/// memory.
const MAX_ITEM_BYTES: i64 = 256 << 20;

/// The maximum number of clients of one kind, each of which takes a thread and a connection.
const MAX_CLIENTS: i64 = 1_000;

/// The maximum number of items in a batch; all of them are in memory at once.
const MAX_BATCH: i64 = 1_000_000;

/// Options of `relive bench`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(super) target: Target,
    /// What the clients do
    #[arg(value_enum)]
    pub(super) load: Load,
    /// Table to use; can be omitted if the server has only one
    #[arg(long, value_name = "NAME")]
    pub(super) table: Option<String>,
    /// Bytes of an inserted item: one step of random uint8 values, which do not compress
    #[arg(long, default_value = "400", value_parser = clap::value_parser!(u32).range(1..=MAX_ITEM_BYTES))]
    pub(super) bytes: u32,
    /// Clients, each with its own connection; `mixed` runs this many inserting clients and as many sampling clients
    #[arg(long, default_value = "2", value_parser = clap::value_parser!(u32).range(1..=MAX_CLIENTS))]
    pub(super) clients: u32,
    /// How items and batches travel; `auto` is the fastest way available
    #[arg(long, value_enum, default_value = "auto")]
    pub(super) transport: TransportOption,
    /// How long to measure
    #[arg(long, default_value = "10", value_parser = parse_seconds)]
    pub(super) seconds: Duration,
    /// Items that an inserting client writes between two flushes, and samples in a batch of a sampling client
    #[arg(long, default_value = "256", value_parser = clap::value_parser!(u32).range(1..=MAX_BATCH))]
    pub(super) batch: u32,
    /// Items to insert before the measurement, so that an empty table can be sampled
    #[arg(long, value_name = "ITEMS", default_value_t = 0)]
    pub(super) fill: u32,
    /// Print only the result, in one line
    #[arg(long)]
    pub(super) json: bool,
}

/// The ways to reach a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum TransportOption {
    /// Shared memory if the server is a process of this user on this machine, otherwise TCP
    Auto,
    /// TCP
    Tcp,
    /// A Unix socket
    Unix,
    /// Shared memory
    Shm,
}

impl From<TransportOption> for TransportChoice {
    fn from(way: TransportOption) -> Self {
        match way {
            TransportOption::Auto => Self::Auto,
            TransportOption::Tcp => Self::Tcp,
            TransportOption::Unix => Self::Unix,
            TransportOption::Shm => Self::SharedMemory,
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
