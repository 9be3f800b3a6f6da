//! The callers that are waiting for a table, and the conditions that they are waiting for.

use std::time::Duration;

use relive_engine::TableHandle;
use relive_wire::v1;

/// The conditions that currently block a sample and an insert, as text. A condition is `None` if the operation may
/// proceed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Waits {
    /// The condition that blocks a sample.
    pub sample: Option<String>,
    /// The condition that blocks an insert.
    pub insert: Option<String>,
}

impl Waits {
    /// Returns the conditions that block calls to a table in this process.
    pub(crate) fn of_table(table: &TableHandle) -> Waits {
        Waits {
            sample: table.sample_shortfall().map(|missing| missing.to_string()),
            insert: table.insert_shortfall().map(|missing| missing.to_string()),
        }
    }
}

/// The operation of a waiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WaiterOperation {
    /// Insert an item.
    Insert,
    /// Take samples.
    Sample,
    /// An operation unknown to this client.
    Other,
}

/// A caller that is waiting for a table's rate limiter or for memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiter {
    /// Its operation.
    pub operation: WaiterOperation,
    /// The address of the peer, or its name.
    pub who: String,
    /// How long the caller has been waiting.
    pub waiting: Duration,
    /// The missing condition, as text.
    pub reason: String,
    /// How many inserts, samples or items are missing, or 0 for a caller that is queued behind others.
    pub missing: u64,
    /// The number of requested items.
    pub wanted: u64,
}

impl Waiter {
    pub(super) fn of_engine(waiter: &relive_engine::WaiterInfo) -> Waiter {
        Waiter {
            operation: match waiter.operation {
                relive_engine::Operation::Insert => WaiterOperation::Insert,
                relive_engine::Operation::Sample => WaiterOperation::Sample,
            },
            who: (*waiter.who).to_owned(),
            waiting: waiter.waiting,
            reason: waiter.reason(),
            missing: waiter.shortfall.map_or(0, |missing| missing.missing()),
            wanted: waiter.wanted,
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
        }
    }
}
