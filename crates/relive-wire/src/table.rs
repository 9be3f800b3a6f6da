//! Tables: their configuration and their state.

use std::sync::Arc;

use relive_table::{RateLimiterConfig, SelectorKind, TableConfig, TableInfo};
use relive_tensor::ChunkTotals;

use crate::WireError;
use crate::reverb;
use crate::reverb::key_distribution_options::{Distribution, Heap, Prioritized};
use crate::reverb::{KeyDistributionOptions, PriorityTableCheckpoint, RateLimiterCallStats, RateLimiterInfo};
use crate::signature;
use crate::tensorflow::StructuredValue;
use crate::v1;

/// Converts a selector to a message.
#[must_use]
pub fn selector_to_wire(kind: SelectorKind) -> KeyDistributionOptions {
    let (distribution, is_deterministic) = match kind {
        SelectorKind::Fifo => (Distribution::Fifo(true), true),
        SelectorKind::Lifo => (Distribution::Lifo(true), true),
        // dm-reverb's protocol has no name for the second kind, so it is sent as the first, which has the same long-run
        // frequencies. Fields of Relive's own tell them apart.
        SelectorKind::Uniform | SelectorKind::WithoutReplacement => (Distribution::Uniform(true), false),
        SelectorKind::MinHeap => (Distribution::Heap(Heap { min_heap: true }), true),
        SelectorKind::MaxHeap => (Distribution::Heap(Heap { min_heap: false }), true),
        SelectorKind::Prioritized { exponent } => {
            (Distribution::Prioritized(Prioritized { priority_exponent: exponent }), false)
        }
    };
    KeyDistributionOptions { distribution: Some(distribution), is_deterministic }
}

/// Converts `message` to a selector. Errors contain `role` (`sampler` or `remover`) and `table`.
///
/// # Errors
/// No distribution is set, or the distribution is set to false.
pub fn selector_from_wire(
    message: Option<&KeyDistributionOptions>,
    table: &str,
    role: &str,
) -> Result<SelectorKind, WireError> {
    let error = |reason: &str| WireError::Table {
        table: table.to_owned(),
        reason: format!(
            "its {role} {reason}; set one of fifo, lifo, uniform: true, prioritized {{ priority_exponent }} or heap \
             {{ min_heap }}"
        ),
    };
    match message.and_then(|options| options.distribution.as_ref()) {
        Some(Distribution::Fifo(true)) => Ok(SelectorKind::Fifo),
        Some(Distribution::Lifo(true)) => Ok(SelectorKind::Lifo),
        Some(Distribution::Uniform(true)) => Ok(SelectorKind::Uniform),
        Some(Distribution::Heap(Heap { min_heap: true })) => Ok(SelectorKind::MinHeap),
        Some(Distribution::Heap(Heap { min_heap: false })) => Ok(SelectorKind::MaxHeap),
        Some(Distribution::Prioritized(Prioritized { priority_exponent })) => {
            Ok(SelectorKind::Prioritized { exponent: *priority_exponent })
        }
        Some(Distribution::Fifo(false) | Distribution::Lifo(false) | Distribution::Uniform(false)) => {
            Err(error("is set to false"))
        }
        None => Err(error("is not set")),
    }
}

/// Converts sums over a table's or a server's chunks to a message.
#[must_use]
pub fn chunks_to_wire(totals: ChunkTotals) -> v1::ChunkTotals {
    let ChunkTotals { chunks, encoded_bytes, raw_bytes, shared_bytes, spilled_bytes } = totals;
    v1::ChunkTotals { chunks, encoded_bytes, raw_bytes, shared_bytes, spilled_bytes }
}

/// Converts a message to sums over chunks.
#[must_use]
pub fn chunks_from_wire(totals: v1::ChunkTotals) -> ChunkTotals {
    let v1::ChunkTotals { chunks, encoded_bytes, raw_bytes, shared_bytes, spilled_bytes } = totals;
    ChunkTotals { chunks, encoded_bytes, raw_bytes, shared_bytes, spilled_bytes }
}

/// Converts a table's state to the message of `ServerInfo`.
#[must_use]
pub fn info_to_wire(info: &TableInfo) -> reverb::TableInfo {
    // All fields are listed, so that a new one is not forgotten. The unnamed ones are only in the message for a new table.
    let TableConfig {
        name,
        sampler,
        remover,
        max_size,
        max_bytes,
        max_times_sampled,
        rate_limiter: limiter,
        signature,
        shards,
        seed: _,
        allow_never_sampled: _,
    } = &*info.config;
    let completed = |count| Some(RateLimiterCallStats { completed: count });
    reverb::TableInfo {
        sampler_options: Some(selector_to_wire(*sampler)),
        remover_options: Some(selector_to_wire(*remover)),
        max_size: to_i64(*max_size),
        max_times_sampled: *max_times_sampled,
        rate_limiter_info: Some(RateLimiterInfo {
            samples_per_insert: limiter.samples_per_insert,
            min_diff: limiter.min_diff,
            max_diff: limiter.max_diff,
            min_size_to_sample: limiter.min_size_to_sample,
            insert_stats: completed(info.inserts),
            sample_stats: completed(info.samples),
        }),
        signature: signature.as_deref().map(signature::to_wire),
        current_size: to_i64(info.current_size),
        name: name.clone(),
        num_episodes: to_i64(info.num_episodes),
        num_deleted_episodes: to_i64(info.num_deleted_episodes),
        num_unique_samples: to_i64(info.num_unique_samples),
        table_worker_time: Some(reverb::TableWorkerTime::default()),
        relive_max_bytes: max_bytes.unwrap_or(0),
        // The usual number is not sent, so that the message of a usual table is the same as dm-reverb's.
        relive_shards: if *shards == 1 { 0 } else { *shards },
        relive_sampler_without_replacement: *sampler == SelectorKind::WithoutReplacement,
        relive_remover_without_replacement: *remover == SelectorKind::WithoutReplacement,
    }
}

/// Converts a message to the state of a table on a server.
///
/// The number of deletes is not in the message; it is computed from the inserts and the size.
///
/// # Errors
/// A selector is missing, a signature is invalid, or a value is out of range.
pub fn info_from_wire(message: &reverb::TableInfo) -> Result<TableInfo, WireError> {
    let limiter = message.rate_limiter_info.unwrap_or_default();
    let mut config = Rules {
        name: &message.name,
        sampler: message.sampler_options.as_ref(),
        remover: message.remover_options.as_ref(),
        max_size: message.max_size,
        max_times_sampled: message.max_times_sampled,
        rate_limiter: RateLimiterConfig {
            samples_per_insert: limiter.samples_per_insert,
            min_size_to_sample: limiter.min_size_to_sample,
            min_diff: limiter.min_diff,
            max_diff: limiter.max_diff,
        },
        signature: message.signature.as_ref(),
    }
    .into_config()?;
    set_own_rules(&mut config, message);
    let completed = |stats: Option<RateLimiterCallStats>| stats.map_or(0, |stats| stats.completed);
    let inserts = completed(limiter.insert_stats);
    Ok(TableInfo {
        config: Arc::new(config),
        current_size: to_u64(message.current_size),
        num_episodes: to_u64(message.num_episodes),
        num_deleted_episodes: to_u64(message.num_deleted_episodes),
        num_unique_samples: to_u64(message.num_unique_samples),
        num_refused_requests: 0,
        inserts,
        samples: completed(limiter.sample_stats),
        deletes: inserts.saturating_sub(message.current_size),
    })
}

/// Sets the rules that only Relive's servers send.
fn set_own_rules(config: &mut TableConfig, message: &reverb::TableInfo) {
    config.max_bytes = Some(message.relive_max_bytes).filter(|bytes| *bytes > 0);
    config.shards = message.relive_shards.max(1);
    if message.relive_sampler_without_replacement {
        config.sampler = SelectorKind::WithoutReplacement;
    }
    if message.relive_remover_without_replacement {
        config.remover = SelectorKind::WithoutReplacement;
    }
}

/// Converts a table from the configuration of a dm-reverb server.
///
/// Counters and items in the message are ignored, as in dm-reverb. The signature is kept, whereas dm-reverb drops it.
///
/// # Errors
/// A selector or the rate limiter is missing, or a value is out of range.
pub fn config_from_wire(message: &PriorityTableCheckpoint) -> Result<TableConfig, WireError> {
    let limiter = message.rate_limiter.as_ref().ok_or_else(|| WireError::Table {
        table: message.table_name.clone(),
        reason: "it has no rate_limiter; set samples_per_insert, min_size_to_sample, min_diff and max_diff"
            .to_owned(),
    })?;
    let config = Rules {
        name: &message.table_name,
        sampler: message.sampler.as_ref(),
        remover: message.remover.as_ref(),
        max_size: message.max_size,
        max_times_sampled: message.max_times_sampled,
        rate_limiter: RateLimiterConfig {
            samples_per_insert: limiter.samples_per_insert,
            min_size_to_sample: limiter.min_size_to_sample,
            min_diff: limiter.min_diff,
            max_diff: limiter.max_diff,
        },
        signature: message.signature.as_ref(),
    }
    .into_config()?;
    config.validate_ranges()?;
    Ok(config)
}

/// The common part of the two messages about a table.
struct Rules<'a> {
    name: &'a str,
    sampler: Option<&'a KeyDistributionOptions>,
    remover: Option<&'a KeyDistributionOptions>,
    max_size: i64,
    max_times_sampled: i32,
    rate_limiter: RateLimiterConfig,
    signature: Option<&'a StructuredValue>,
}

impl Rules<'_> {
    fn into_config(self) -> Result<TableConfig, WireError> {
        let mut config = TableConfig::new(self.name)
            .sampler(selector_from_wire(self.sampler, self.name, "sampler")?)
            .remover(selector_from_wire(self.remover, self.name, "remover")?)
            .max_size(to_u64(self.max_size))
            .max_times_sampled(self.max_times_sampled)
            .rate_limiter(self.rate_limiter);
        config.signature = self.signature.map(signature::from_wire).transpose()?.map(Arc::new);
        Ok(config)
    }
}

fn to_i64(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Converts a size. A correct peer never sends negative sizes; a negative size becomes 0, which the validation of the
/// configuration later refuses.
fn to_u64(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(config: TableConfig) -> TableInfo {
        TableInfo {
            config: Arc::new(config),
            current_size: 3,
            num_episodes: 1,
            num_deleted_episodes: 0,
            num_unique_samples: 2,
            num_refused_requests: 0,
            inserts: 5,
            samples: 7,
            deletes: 2,
        }
    }

    #[test]
    fn rules_that_only_relive_has_are_kept() {
        let special = TableConfig::new("t")
            .sampler(SelectorKind::WithoutReplacement)
            .remover(SelectorKind::WithoutReplacement)
            .max_bytes(1_000)
            .shards(4);
        for config in [TableConfig::new("t"), TableConfig::new("t").shards(2), special] {
            let read = info_from_wire(&info_to_wire(&info(config.clone()))).unwrap();
            assert_eq!((&*read.config, read.samples, read.deletes), (&config, 7, 2));
        }
    }

    #[test]
    fn a_usual_table_is_described_as_by_dm_reverb() {
        let message = info_to_wire(&info(TableConfig::new("t")));
        let own = (message.relive_max_bytes, message.relive_shards);
        let selectors =
            (message.relive_sampler_without_replacement, message.relive_remover_without_replacement);
        assert_eq!((own, selectors), ((0, 0), (false, false)));
    }
}
