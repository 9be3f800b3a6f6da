//! Formats waiters for people and for programs.

use relive_client::{Waiter, WaiterOperation};
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct WaiterFields<'a> {
    operation: &'static str,
    who: &'a str,
    waiting_s: f64,
    reason: &'a str,
    missing: u64,
    wanted: u64,
}

pub(super) fn waiter_fields(waiter: &Waiter) -> WaiterFields<'_> {
    WaiterFields {
        operation: operation(waiter.operation),
        who: &waiter.who,
        waiting_s: waiter.waiting.as_secs_f64(),
        reason: &waiter.reason,
        missing: waiter.missing,
        wanted: waiter.wanted,
    }
}

/// Returns a waiter's operation as one word.
pub(super) fn operation(operation: WaiterOperation) -> &'static str {
    match operation {
        WaiterOperation::Insert => "insert",
        WaiterOperation::Sample => "sample",
        _ => "other",
    }
}
