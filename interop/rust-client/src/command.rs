//! The commands of the suite.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::pattern::PatternConfig;
use crate::value::NestValue;

/// One line of input. At any time, there is at most one client, one writer of each kind, and one sampler.
#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(crate) enum Command {
    Connect {
        address: String,
        timeout_ms: u64,
    },
    Insert {
        step: NestValue,
        priorities: BTreeMap<String, f64>,
    },
    Sample {
        table: String,
        count: usize,
        timeout_ms: u64,
    },
    MutatePriorities {
        table: String,
        updates: Vec<(u64, f64)>,
        deletes: Vec<u64>,
    },
    Reset {
        table: String,
    },
    ServerInfo {
        timeout_ms: u64,
    },
    Status,
    Checkpoint,
    Writer {
        num_keep_alive_refs: u32,
        chunk_length: Option<u32>,
        validate_items: bool,
        codec: Option<String>,
    },
    StructuredWriter {
        configs: Vec<PatternConfig>,
    },
    Append {
        step: NestValue,
        partial: bool,
    },
    CreateItem {
        table: String,
        priority: f64,
        columns: Vec<ColumnChoice>,
    },
    Flush {
        timeout_ms: u64,
    },
    EndEpisode {
        clear: bool,
        timeout_ms: u64,
    },
    Close,
    Sampler {
        table: String,
        options: ReaderOptions,
    },
    Next {
        timeout_ms: u64,
    },
    DropSampler,
}

/// A column of an item: a step, some rows, or a range with a stride.
#[derive(Debug, Deserialize)]
pub(crate) struct ColumnChoice {
    pub(crate) path: String,
    pub(crate) step: Option<i64>,
    pub(crate) rows: Option<Vec<i64>>,
    pub(crate) range: Option<(i64, Option<i64>, usize)>,
}

/// Options of a sampler; absent options keep their defaults.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ReaderOptions {
    pub(crate) workers: Option<usize>,
    pub(crate) in_flight: Option<usize>,
    pub(crate) max_samples: Option<usize>,
    pub(crate) max_samples_per_stream: Option<usize>,
    pub(crate) limiter_timeout_ms: Option<u64>,
}
