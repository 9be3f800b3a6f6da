//! Converts the tables of a document to tables of an engine.

use std::collections::HashSet;

use relive_table::{ConfigError, TableConfig};

use super::document::{KindEntry, TableEntry};
use super::place::{Place, ValueError};
use super::signature;

/// Checks and converts the tables, which are at `place`.
pub(super) fn tables(entries: Vec<TableEntry>, place: &Place) -> Result<Vec<TableConfig>, ValueError> {
    if entries.is_empty() {
        return Err(
            place.value_error("the configuration must have at least one table; add [[table]] with a name")
        );
    }
    let mut names = HashSet::new();
    for (index, entry) in entries.iter().enumerate() {
        if !names.insert(entry.name.as_str()) {
            let reason =
                format!("{:?} is the name of an earlier table; table names must be unique", entry.name);
            return Err(place.index(index).key("name").value_error(reason));
        }
    }
    entries.into_iter().enumerate().map(|(index, entry)| table(entry, &place.index(index))).collect()
}

fn table(entry: TableEntry, place: &Place) -> Result<TableConfig, ValueError> {
    let mut config = match entry.kind {
        Some(kind) => of_kind(&entry, kind, place)?,
        None => free(&entry, place)?,
    };
    if let Some(max_bytes) = &entry.max_bytes {
        config.max_bytes = Some(place.key("max_bytes").bytes(max_bytes)?);
    }
    if let Some(shards) = entry.shards {
        config.shards = shards;
    }
    config.seed = entry.seed;
    if let Some(value) = entry.signature {
        config = config.signature(signature::signature(value, &place.key("signature"))?);
    }
    config.validate().map_err(|error| key_of(&error, place).value_error(error))?;
    Ok(config)
}

/// Returns a table that sets its rules individually.
fn free(entry: &TableEntry, place: &Place) -> Result<TableConfig, ValueError> {
    let mut config = TableConfig::new(&entry.name);
    if let Some(sampler) = entry.sampler {
        config.sampler = sampler.into();
    }
    if let Some(remover) = entry.remover {
        config.remover = remover.into();
    }
    if let Some(max_size) = entry.max_size {
        config.max_size = max_size;
    }
    if let Some(max_times_sampled) = entry.max_times_sampled {
        config.max_times_sampled = max_times_sampled;
    }
    if let Some(limiter) = entry.rate_limiter {
        config.rate_limiter =
            limiter.limiter().map_err(|reason| place.key("rate_limiter").value_error(reason))?;
    }
    Ok(config)
}

/// Returns a queue or stack, whose rules are determined by its size.
fn of_kind(entry: &TableEntry, kind: KindEntry, place: &Place) -> Result<TableConfig, ValueError> {
    let ruled = [
        ("sampler", entry.sampler.is_some()),
        ("remover", entry.remover.is_some()),
        ("max_times_sampled", entry.max_times_sampled.is_some()),
        ("rate_limiter", entry.rate_limiter.is_some()),
    ];
    if let Some((key, _)) = ruled.into_iter().find(|(_, is_set)| *is_set) {
        return Err(place.key(key).value_error("`kind` sets this already; remove one of the two"));
    }
    let Some(max_size) = entry.max_size else {
        return Err(place.key("max_size").value_error("`kind` requires a max_size"));
    };
    let size = i32::try_from(max_size).map(i32::unsigned_abs).map_err(|_| {
        place.key("max_size").value_error(format!("must be at most {}, got {max_size}", i32::MAX))
    })?;
    Ok(match kind {
        KindEntry::Queue => TableConfig::queue(&entry.name, size),
        KindEntry::Stack => TableConfig::stack(&entry.name, size),
    })
}

/// Returns the key that caused an error of a configuration.
fn key_of(error: &ConfigError, place: &Place) -> Place {
    match error {
        ConfigError::EmptyName | ConfigError::LongName { .. } | ConfigError::ControlCharacters { .. } => {
            place.key("name")
        }
        ConfigError::MaxSize { .. } => place.key("max_size"),
        ConfigError::MaxBytes { .. } => place.key("max_bytes"),
        ConfigError::Exponent { role, .. } => place.key(role),
        ConfigError::RateLimiter { .. }
        | ConfigError::NeverLargeEnough { .. }
        | ConfigError::NeverFarEnough { .. } => place.key("rate_limiter"),
        ConfigError::Shards { .. } | ConfigError::NotShardable { .. } => place.key("shards"),
    }
}
