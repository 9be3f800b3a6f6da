//! The reasons for which a run makes no progress, as reported by its server.

use std::sync::atomic::Ordering;
use std::time::Duration;

use relive_client::{Client, Waiter, WaiterOperation};
use tokio::time::sleep_until;

use super::options::Load;
use super::plan::Plan;

/// How long before the end of a run the server is queried. At the end, no client would still be waiting.
const BEFORE_END: Duration = Duration::from_millis(200);

/// The conditions that inserts and samples wait for.
#[derive(Debug, Default)]
pub(super) struct BlockedOn {
    /// Inserts, for memory.
    pub(super) memory: Option<String>,
    /// The conditions that inserts into the table wait for.
    pub(super) inserts: Option<String>,
    /// The conditions that samples from the table wait for.
    pub(super) samples: Option<String>,
}

impl BlockedOn {
    /// Queries the server shortly before the end of a run with the given `length`, but only if no insert or no sample
    /// has completed.
    pub(super) async fn find(client: &Client, plan: &Plan, load: Load, length: Duration) -> Self {
        sleep_until(plan.end - BEFORE_END.min(length / 2)).await;
        let is_stuck = (load.inserts() && plan.live.inserted.load(Ordering::Relaxed) == 0)
            || (load.samples() && plan.live.sampled.load(Ordering::Relaxed) == 0);
        // dm-reverb's servers do not report why calls wait.
        let Some(status) = (if is_stuck { client.status().await.ok() } else { None }) else {
            return Self::default();
        };
        let of_table = status.table(&plan.table).map(|table| table.waiters.as_slice()).unwrap_or_default();
        Self {
            memory: reason(&status.memory.waiters, WaiterOperation::Insert),
            inserts: reason(of_table, WaiterOperation::Insert),
            samples: reason(of_table, WaiterOperation::Sample),
        }
    }
}

/// Returns the condition that the first waiter of a kind is waiting for; other waiters are queued behind it.
fn reason(waiters: &[Waiter], operation: WaiterOperation) -> Option<String> {
    waiters.iter().find(|waiter| waiter.operation == operation).map(|waiter| waiter.reason.clone())
}
