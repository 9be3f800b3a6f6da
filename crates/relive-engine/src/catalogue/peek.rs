//! Peeks at some of a table's items, which gives a cheap overview of all of them.

use relive_table::Timestamp;

use super::handle::TableHandle;
use crate::limits::SLOTS_PER_PEEK_STEP;
use crate::sync::wall_clock;
use crate::table::TableCore;

/// The data about an item that [`TableHandle::peek`] returns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PeekedItem {
    /// Its priority.
    pub priority: f64,
    /// When the item was inserted, according to this machine's clock.
    pub inserted_at: Timestamp,
    /// The number of times that the item has been sampled.
    pub times_sampled: i32,
}

impl TableHandle {
    /// Returns about `most` items from all parts of the table, or all items if the table holds no more. Reads runs of a
    /// few dozen adjacent items, taking the lock once per run. Peeking does not count as sampling.
    ///
    /// ```
    /// use relive_engine::Engine;
    /// use relive_table::TableConfig;
    ///
    /// let engine = Engine::builder().table(TableConfig::new("replay")).build()?;
    /// assert_eq!(engine.table("replay")?.peek(1_000), []);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn peek(&self, most: usize) -> Vec<PeekedItem> {
        let cores = self.cores();
        cores.iter().flat_map(|core| core.peek(most.div_ceil(cores.len()))).collect()
    }
}

impl TableCore {
    fn peek(&self, most: usize) -> Vec<PeekedItem> {
        let slots = self.read(|state| state.table.num_slots());
        // The start position comes from the last digits of the clock, so that the table's own random stream is not
        // used.
        let start = usize::try_from(wall_clock().as_nanos() / 1_000).unwrap_or(0);
        let steps = slots.div_ceil(SLOTS_PER_PEEK_STEP);
        let wanted = most.div_ceil(SLOTS_PER_PEEK_STEP).min(steps);
        let mut found = Vec::with_capacity(most.min(slots));
        for number in 0..wanted {
            // The chosen steps are evenly spread, and differ from call to call.
            let step = (number * steps / wanted + start) % steps;
            let from = step * SLOTS_PER_PEEK_STEP;
            self.read(|state| {
                let items = state.table.items_in_slots(from..from + SLOTS_PER_PEEK_STEP);
                found.extend(items.map(|item| PeekedItem {
                    priority: item.priority,
                    inserted_at: item.data.inserted_at,
                    times_sampled: item.times_sampled,
                }));
            });
        }
        found
    }
}
