//! The TOML document, key by key.

use std::path::PathBuf;

use relive_host::{Format, Rules};
use serde::Deserialize;

use super::limiter::LimiterEntry;
use super::sampler::SelectorEntry;
use crate::choice;
use crate::security::ServerSecurity;
use crate::units::BytesEntry;

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    pub(super) port: Option<u16>,
    pub(super) bind: Option<String>,
    pub(super) http: Option<String>,
    pub(super) max_bytes: Option<BytesEntry>,
    pub(super) max_bytes_wait: Option<f64>,
    pub(super) spill_dir: Option<PathBuf>,
    pub(super) checkpoint_dir: Option<String>,
    pub(super) checkpoint_every: Option<String>,
    pub(super) checkpoint_keep: Option<u32>,
    #[serde(default, deserialize_with = "choice::key")]
    pub(super) checkpoint_format: Option<Format>,
    #[serde(default, deserialize_with = "choice::key")]
    pub(super) config_from: Option<Rules>,
    pub(super) checkpoint_at_shutdown: Option<bool>,
    #[serde(default)]
    pub(super) security: ServerSecurity,
    #[serde(default)]
    pub(super) table: Vec<TableEntry>,
}

/// One `[[table]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TableEntry {
    pub(super) name: String,
    pub(super) kind: Option<KindEntry>,
    pub(super) sampler: Option<SelectorEntry>,
    pub(super) remover: Option<SelectorEntry>,
    pub(super) max_size: Option<u64>,
    pub(super) max_bytes: Option<BytesEntry>,
    pub(super) max_times_sampled: Option<i32>,
    pub(super) rate_limiter: Option<LimiterEntry>,
    pub(super) shards: Option<u32>,
    pub(super) seed: Option<u64>,
    pub(super) signature: Option<toml::Value>,
}

/// A shorthand that sets all rules except the size.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum KindEntry {
    Queue,
    Stack,
}
