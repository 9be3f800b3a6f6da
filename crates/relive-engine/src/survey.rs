//! Some items of a table, to see what all of them are like.

use relive_table::Timestamp;

use crate::handle::TableHandle;
use crate::limits::SLOTS_PER_SURVEY_STEP;
use crate::table_core::{TableCore, wall_clock};

/// What a survey notes of an item.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Surveyed {
    /// Its priority.
    pub priority: f64,
    /// When it was inserted, by the clock of this machine.
    pub inserted_at: Timestamp,
    /// How often it was sampled.
    pub times_sampled: i32,
}

impl TableHandle {
    /// About `most` items, or all if there are no more, from all over the table: places of some dozens of neighbours, as many
    /// under one lock. It does not count as sampling.
    ///
    /// ```
    /// use relive_engine::Engine;
    /// use relive_table::TableConfig;
    ///
    /// let engine = Engine::builder().table(TableConfig::new("replay")).build()?;
    /// assert_eq!(engine.table("replay")?.survey(1_000), []);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn survey(&self, most: usize) -> Vec<Surveyed> {
        let cores = self.cores();
        cores.iter().flat_map(|core| core.survey(most / cores.len())).collect()
    }
}

impl TableCore {
    fn survey(&self, most: usize) -> Vec<Surveyed> {
        let slots = self.look(|state| state.table.num_slots());
        // The clock's last digits differ from time to time, and the table's own random stream stays as it is.
        let start = usize::try_from(wall_clock().as_nanos() / 1_000).unwrap_or(0);
        let steps = slots.div_ceil(SLOTS_PER_SURVEY_STEP);
        let wanted = most.div_ceil(SLOTS_PER_SURVEY_STEP).min(steps);
        let mut found = Vec::with_capacity(most.min(slots));
        for number in 0..wanted {
            // Evenly spread, and elsewhere each time.
            let step = (number * steps / wanted + start) % steps;
            let from = step * SLOTS_PER_SURVEY_STEP;
            self.look(|state| {
                let items = state.table.items_in_slots(from..from + SLOTS_PER_SURVEY_STEP);
                found.extend(items.map(|item| Surveyed {
                    priority: item.priority,
                    inserted_at: item.data.inserted_at,
                    times_sampled: item.times_sampled,
                }));
            });
        }
        found
    }
}
