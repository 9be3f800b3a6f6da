//! The description of a table in a checkpoint.

use std::sync::Arc;

use relive_table::{ItemStructure, RateLimiterConfig, SelectorKind, TableConfig, TableCounters};

use super::fields::{OPTIONAL, next_field, once, put_field, required, unknown};
use super::signature::{names, put_names, put_signature, signature};
use crate::layout::{Cursor, Malformed, Put, selector_code, selector_of};

/// A table, without its items.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TableDescription {
    pub(crate) config: Arc<TableConfig>,
    pub(crate) counters: TableCounters,
    /// The number of items.
    pub(crate) items: u64,
    /// The structure of the items, if writers have declared it.
    pub(crate) structure: Option<Arc<ItemStructure>>,
}

const NAME: u16 = 1;
const SAMPLER: u16 = 2;
const REMOVER: u16 = 3;
const MAX_SIZE: u16 = 4;
const MAX_TIMES_SAMPLED: u16 = 5;
const RATE_LIMITER: u16 = 6;
const COUNTERS: u16 = 7;
const SIGNATURE: u16 = 8;
const ITEMS: u16 = 9;
const MAX_BYTES: u16 = 10;
const NAMES: u16 = OPTIONAL + 1;
const OTHER_NAMES: u16 = OPTIONAL + 2;

impl TableDescription {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let TableConfig {
            name,
            sampler,
            remover,
            max_size,
            max_bytes,
            max_times_sampled,
            rate_limiter,
            signature,
            // These values are not part of a table's state, because the configuration determines them.
            shards: _,
            seed: _,
            allow_never_sampled: _,
        } = self.config.as_ref();
        put_field(out, NAME, |out| out.put(name.as_bytes()));
        put_field(out, SAMPLER, |out| put_selector(out, *sampler));
        put_field(out, REMOVER, |out| put_selector(out, *remover));
        put_field(out, MAX_SIZE, |out| out.put_u64(*max_size));
        put_field(out, MAX_TIMES_SAMPLED, |out| out.put_i32(*max_times_sampled));
        put_field(out, RATE_LIMITER, |out| put_limiter(out, rate_limiter));
        put_field(out, COUNTERS, |out| put_counters(out, &self.counters));
        if let Some(signature) = signature {
            put_field(out, SIGNATURE, |out| put_signature(out, signature));
        }
        put_field(out, ITEMS, |out| out.put_u64(self.items));
        if let Some(max_bytes) = max_bytes {
            put_field(out, MAX_BYTES, |out| out.put_u64(*max_bytes));
        }
        if let Some(structure) = &self.structure {
            put_field(out, NAMES, |out| put_names(out, &structure.names));
            if let Some(other) = &structure.disputed_by {
                put_field(out, OTHER_NAMES, |out| put_names(out, other));
            }
        }
    }

    pub(super) fn decode(mut fields: Cursor<'_>) -> Result<Self, Malformed> {
        let (mut name, mut sampler, mut remover, mut max_size) = (None, None, None, None);
        let (mut max_times_sampled, mut limiter, mut counters) = (None, None, None);
        let (mut signed, mut items, mut max_bytes) = (None, None, None);
        let (mut named, mut disputed_by) = (None, None);
        while let Some((tag, mut field)) = next_field(&mut fields)? {
            match tag {
                NAME => {
                    let text = std::str::from_utf8(field.rest()).map_err(|_| Malformed::Text)?;
                    once(&mut name, "name", text.to_owned(), Cursor::new(&[]))?;
                }
                SAMPLER => once(&mut sampler, "sampler", selector(&mut field)?, field)?,
                REMOVER => once(&mut remover, "remover", selector(&mut field)?, field)?,
                MAX_SIZE => once(&mut max_size, "max_size", field.u64()?, field)?,
                MAX_TIMES_SAMPLED => once(&mut max_times_sampled, "max_times_sampled", field.i32()?, field)?,
                RATE_LIMITER => once(&mut limiter, "rate limiter", rate_limiter(&mut field)?, field)?,
                COUNTERS => once(&mut counters, "counters", table_counters(&mut field)?, field)?,
                SIGNATURE => once(&mut signed, "signature", signature(&mut field)?, field)?,
                ITEMS => once(&mut items, "items", field.u64()?, field)?,
                MAX_BYTES => once(&mut max_bytes, "max_bytes", field.u64()?, field)?,
                NAMES => once(&mut named, "names", names(&mut field)?, field)?,
                OTHER_NAMES => once(&mut disputed_by, "other names", names(&mut field)?, field)?,
                tag => unknown(tag)?,
            }
        }
        let config = TableConfig {
            name: required(name, "name")?,
            sampler: required(sampler, "sampler")?,
            remover: required(remover, "remover")?,
            max_size: required(max_size, "max_size")?,
            max_bytes,
            max_times_sampled: required(max_times_sampled, "max_times_sampled")?,
            rate_limiter: required(limiter, "rate limiter")?,
            signature: signed.map(Arc::new),
            shards: 1,
            seed: None,
            allow_never_sampled: false,
        };
        let (counters, items) = (required(counters, "counters")?, required(items, "items")?);
        let disputed_by = disputed_by.map(Arc::new);
        let structure = named.map(|names| {
            Arc::new(ItemStructure { names: Arc::new(names), is_signature: false, disputed_by })
        });
        Ok(Self { config: Arc::new(config), counters, items, structure })
    }
}

fn put_selector(out: &mut Vec<u8>, selector: SelectorKind) {
    let (code, exponent) = selector_code(selector);
    out.put_u32(code);
    out.put_f64(exponent);
}

fn selector(field: &mut Cursor<'_>) -> Result<SelectorKind, Malformed> {
    let code = field.u32()?;
    selector_of(code, field.f64()?)
}

fn put_limiter(out: &mut Vec<u8>, limiter: &RateLimiterConfig) {
    let RateLimiterConfig { samples_per_insert, min_size_to_sample, min_diff, max_diff } = limiter;
    out.put_f64(*samples_per_insert);
    out.put_i64(*min_size_to_sample);
    out.put_f64(*min_diff);
    out.put_f64(*max_diff);
}

fn rate_limiter(field: &mut Cursor<'_>) -> Result<RateLimiterConfig, Malformed> {
    let (samples_per_insert, min_size_to_sample) = (field.f64()?, field.i64()?);
    let (min_diff, max_diff) = (field.f64()?, field.f64()?);
    Ok(RateLimiterConfig { samples_per_insert, min_size_to_sample, min_diff, max_diff })
}

fn put_counters(out: &mut Vec<u8>, counters: &TableCounters) {
    let TableCounters { inserts, samples, deletes, deleted_episodes, unique_samples } = counters;
    [inserts, samples, deletes].into_iter().for_each(|count| out.put_i64(*count));
    [deleted_episodes, unique_samples].into_iter().for_each(|count| out.put_u64(*count));
}

fn table_counters(field: &mut Cursor<'_>) -> Result<TableCounters, Malformed> {
    let (inserts, samples, deletes) = (field.i64()?, field.i64()?, field.i64()?);
    let (deleted_episodes, unique_samples) = (field.u64()?, field.u64()?);
    Ok(TableCounters { inserts, samples, deletes, deleted_episodes, unique_samples })
}
