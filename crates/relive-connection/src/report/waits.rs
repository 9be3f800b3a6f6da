//! What a table's rate limiter waits for, and who waits.

use std::time::Duration;

use relive_engine::TableHandle;
use relive_wire::v1;

/// What would hold a sample and an insert back now, in words; none if it may happen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Waits {
    /// What one sample waits for.
    pub sample: Option<String>,
    /// What one insert waits for.
    pub insert: Option<String>,
}

impl Waits {
    /// What holds back calls of a table of this process.
    pub(crate) fn of_table(table: &TableHandle) -> Waits {
        Waits {
            sample: table.sample_shortfall().map(|missing| missing.to_string()),
            insert: table.insert_shortfall().map(|missing| missing.to_string()),
        }
    }
}

/// What a waiter wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WaiterOperation {
    /// Insert an item.
    Insert,
    /// Take samples.
    Sample,
    /// Something that this client does not know.
    Other,
}

/// Somebody whom a table's rate limiter holds back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiter {
    /// What it wants to do.
    pub operation: WaiterOperation,
    /// Who waits: the peer's address.
    pub who: String,
    /// For how long.
    pub waiting: Duration,
    /// What is missing, for people.
    pub reason: String,
    /// How many inserts, samples or items must come first; 0 for one that waits behind others.
    pub missing: u64,
    /// Items wanted.
    pub wanted: u64,
    /// Items taken so far.
    pub taken: u64,
}

impl Waiter {
    pub(super) fn of_engine(waiter: &relive_engine::WaiterInfo) -> Waiter {
        let reason = waiter.shortfall.map(|shortfall| shortfall.to_string());
        Waiter {
            operation: match waiter.operation {
                relive_engine::Operation::Insert => WaiterOperation::Insert,
                relive_engine::Operation::Sample => WaiterOperation::Sample,
            },
            who: (*waiter.who).to_owned(),
            waiting: waiter.waiting,
            reason: reason.unwrap_or_else(|| "stands behind others".to_owned()),
            missing: waiter.shortfall.map_or(0, |missing| missing.missing()),
            wanted: waiter.wanted,
            taken: 0,
        }
    }

    pub(super) fn from_message(message: v1::Waiter) -> Waiter {
        let operation = match message.operation() {
            v1::waiter::Operation::Insert => WaiterOperation::Insert,
            v1::waiter::Operation::Sample => WaiterOperation::Sample,
            v1::waiter::Operation::Unspecified => WaiterOperation::Other,
        };
        Waiter {
            operation,
            who: message.who,
            waiting: Duration::from_millis(message.waiting_ms),
            reason: message.reason,
            missing: message.missing,
            wanted: message.wanted,
            taken: message.taken,
        }
    }
}
