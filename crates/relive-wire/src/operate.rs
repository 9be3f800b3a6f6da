//! Changes to tables in use, in messages.

use std::sync::Arc;

use relive_table::{Changed, ConfigError, LoggedChange, TableChange, TableConfig, TableInfo, Timestamp};

use crate::v1::{AddTableRequest, ChangeTableRequest, ChangeTableResponse};
use crate::{WireError, table, v1};

/// Returns the request for a change of `table`.
///
/// # Errors
/// A `max_bytes` of 0, which would remove the bound in the message.
pub fn change_to_wire(table: &str, change: &TableChange) -> Result<ChangeTableRequest, ConfigError> {
    Ok(ChangeTableRequest {
        table: table.to_owned(),
        max_size: change.max_size,
        max_bytes: change.max_bytes.map(|bound| bound_to_wire(table, bound)).transpose()?,
        max_times_sampled: change.max_times_sampled,
        samples_per_insert: change.samples_per_insert,
        min_size_to_sample: change.min_size_to_sample,
        min_diff: change.min_diff,
        max_diff: change.max_diff,
        pause_inserts: change.pause_inserts,
        pause_samples: change.pause_samples,
    })
}

/// Returns the requested change.
pub fn change_from_wire(message: &ChangeTableRequest) -> TableChange {
    TableChange {
        max_size: message.max_size,
        max_bytes: message.max_bytes.map(bound),
        max_times_sampled: message.max_times_sampled,
        samples_per_insert: message.samples_per_insert,
        min_size_to_sample: message.min_size_to_sample,
        min_diff: message.min_diff,
        max_diff: message.max_diff,
        pause_inserts: message.pause_inserts,
        pause_samples: message.pause_samples,
    }
}

/// Returns the response to a change.
#[must_use]
pub fn changed_to_wire(changed: &Changed) -> ChangeTableResponse {
    let changes = changed.changes.iter().map(logged_to_wire).collect();
    ChangeTableResponse { changes, evicted: changed.evicted }
}

/// Returns the change in a response.
#[must_use]
pub fn changed_from_wire(message: ChangeTableResponse) -> Changed {
    let changes = message.changes.into_iter().map(logged_from_wire).collect();
    Changed { changes, evicted: message.evicted }
}

/// Converts a logged change to a message.
#[must_use]
pub fn logged_to_wire(change: &LoggedChange) -> v1::LoggedChange {
    let LoggedChange { at, who, table, what, old, new } = change.clone();
    v1::LoggedChange { at_ns: at.as_nanos(), who, table, what, old, new }
}

/// Converts a message to a logged change.
#[must_use]
pub fn logged_from_wire(message: v1::LoggedChange) -> LoggedChange {
    let v1::LoggedChange { at_ns, who, table, what, old, new } = message;
    LoggedChange { at: Timestamp::from_nanos(at_ns), who, table, what, old, new }
}

/// Returns the request for a new table.
///
/// # Errors
/// A `max_bytes` of 0, which would mean no bound in the message.
pub fn add_to_wire(config: &TableConfig) -> Result<AddTableRequest, ConfigError> {
    bound_to_wire(&config.name, config.max_bytes)?;
    Ok(AddTableRequest {
        table: Some(table::info_to_wire(&empty(config))),
        seed: config.seed,
        allow_never_sampled: config.allow_never_sampled,
    })
}

/// Returns the requested table, without validating it.
///
/// # Errors
/// A selector is missing, or a signature is invalid.
pub fn add_from_wire(message: &AddTableRequest) -> Result<TableConfig, WireError> {
    let info = table::info_from_wire(message.table.as_ref().unwrap_or(&Default::default()))?;
    let mut config = Arc::unwrap_or_clone(info.config);
    config.seed = message.seed;
    config.allow_never_sampled = message.allow_never_sampled;
    Ok(config)
}

/// Converts a bound in a message, where 0 means none.
fn bound(bytes: u64) -> Option<u64> {
    Some(bytes).filter(|bytes| *bytes > 0)
}

/// Converts a bound on the bytes of `table`. A bound of 0 is refused, because 0 means none in messages.
fn bound_to_wire(table: &str, bytes: Option<u64>) -> Result<u64, ConfigError> {
    match bytes {
        Some(0) => Err(ConfigError::MaxBytes { table: table.to_owned() }),
        bytes => Ok(bytes.unwrap_or(0)),
    }
}

fn empty(config: &TableConfig) -> TableInfo {
    TableInfo {
        config: Arc::new(config.clone()),
        current_size: 0,
        num_episodes: 0,
        num_deleted_episodes: 0,
        num_unique_samples: 0,
        num_refused_requests: 0,
        inserts: 0,
        samples: 0,
        deletes: 0,
    }
}

#[cfg(test)]
mod tests {
    use relive_table::{RateLimiterConfig, SelectorKind};

    use super::*;

    #[test]
    fn a_table_change_round_trips() {
        let limiter = RateLimiterConfig {
            samples_per_insert: 2.0,
            min_size_to_sample: 3,
            min_diff: -1.5,
            max_diff: 9.0,
        };
        let all = TableChange::new().rate_limiter(limiter).max_size(7).max_bytes(8).max_times_sampled(-1);
        let all = all.pause_inserts(true).pause_samples(false);
        for change in [TableChange::new(), TableChange::new().max_bytes(None), all] {
            let message = change_to_wire("t", &change).unwrap();
            assert_eq!((message.table.as_str(), change_from_wire(&message)), ("t", change));
        }
    }

    #[test]
    fn a_bound_of_no_bytes_is_refused_instead_of_removed() {
        let refused = ConfigError::MaxBytes { table: "t".to_owned() };
        assert_eq!(change_to_wire("t", &TableChange::new().max_bytes(0)), Err(refused.clone()));
        assert_eq!(add_to_wire(&TableConfig::new("t").max_bytes(0)), Err(refused));
    }

    #[test]
    fn a_logged_change_round_trips() {
        let text = |text: &str| text.to_owned();
        let change = LoggedChange {
            at: Timestamp::from_nanos(5),
            who: text("me"),
            table: text("t"),
            what: text("max_size"),
            old: text("1"),
            new: text("2"),
        };
        let changed = Changed { changes: vec![change], evicted: 4 };
        assert_eq!(changed_from_wire(changed_to_wire(&changed)), changed);
    }

    #[test]
    fn a_new_table_keeps_all_its_settings() {
        let config = TableConfig::new("t")
            .sampler(SelectorKind::WithoutReplacement)
            .remover(SelectorKind::Prioritized { exponent: 0.5 })
            .max_size(9)
            .max_bytes(1_000)
            .max_times_sampled(3)
            .rate_limiter(RateLimiterConfig::queue(4))
            .shards(3)
            .seed(u64::MAX)
            .allow_never_sampled(true);
        assert_eq!(add_from_wire(&add_to_wire(&config).unwrap()).unwrap(), config);
        assert!(add_from_wire(&AddTableRequest::default()).is_err());
    }
}
