//! Inserts items into a table.

use std::sync::Arc;
use std::time::Instant;

use relive_table::NewItem;
use smallvec::SmallVec;

use super::change::Origin;
use super::confirmations::Confirmations;
use super::request::Accepted;
use super::table_core::TableCore;
use crate::error::EngineError;
use crate::limits::read_ahead;

/// The number of inserts under one lock: enough to amortize the cost of the lock, and few enough to hold it only
/// briefly.
const INSERTS_PER_LOCK: usize = 64;

impl TableCore {
    /// See [`TableHandle::insert`](crate::TableHandle::insert).
    pub(crate) fn insert(
        &self,
        items: impl IntoIterator<Item = NewItem>,
        who: &Arc<str>,
        confirmations: &Arc<Confirmations>,
        confirmed: &mut Vec<u64>,
    ) -> Result<Accepted, EngineError> {
        let origin =
            Origin { who, since: Instant::now(), deadline: None, confirmations: Some(confirmations) };
        let mut items = items.into_iter();
        let mut accepted = Accepted::default();
        loop {
            let stage: SmallVec<[NewItem; 1]> = items.by_ref().take(INSERTS_PER_LOCK).collect();
            let keys: SmallVec<[u64; INSERTS_PER_LOCK]> = stage.iter().map(|item| item.key).collect();
            if keys.is_empty() {
                return Ok(accepted);
            }
            let mut stage = stage.into_iter();
            accepted = self.change(|change| {
                change.state.table.expect_inserts(&keys);
                for item in stage.by_ref() {
                    let key = item.key;
                    if change.insert(item, &origin)? {
                        confirmed.push(key);
                    } else {
                        accepted.deferred += 1;
                    }
                }
                let saturated =
                    change.state.inserts.len() >= read_ahead(change.state.table.config().max_size);
                Ok(Accepted { saturated, ..accepted })
            })?;
        }
    }
}
