//! Captures a table in parts; the table stays in use between them.

use std::sync::Arc;

use crate::selector::Slot;
use crate::snapshot::{StoredItem, TableCounters, TableSnapshot};
use crate::storage::{Capture, State};
use crate::table::Table;

impl Table {
    /// Begins to capture the table as it is now. Returns its rules and counters;
    /// [`fetch_captured`](Self::fetch_captured) returns the items in parts. A capture that is already running is
    /// abandoned.
    ///
    /// This clears one bit per item; the rest takes the same short time for any number of items. Until
    /// [`end_capture`](Self::end_capture), an operation that changes or removes an item that has not been fetched first
    /// saves a reference to the item, its priority and its sample count.
    ///
    /// ```
    /// # use relive_tensor::{Chunk, Codec, SequenceRange, Slice, Tensor, TrajectoryBuilder, encode_chunk};
    /// # fn item(key: u64) -> NewItem {
    /// #     let range = SequenceRange { episode_id: 1, start: 0, end: 0, sparse: false };
    /// #     let row = Tensor::from_slice(&[key], [1]).unwrap();
    /// #     let chunk = Chunk::new(encode_chunk(key, range, &[row], false, Codec::Raw).unwrap()).unwrap();
    /// #     let mut builder = TrajectoryBuilder::new();
    /// #     builder.begin_column(true);
    /// #     let chunk = builder.chunk(chunk.into());
    /// #     builder.slice(Slice { chunk, offset: 0, length: 1, index: 0 });
    /// #     NewItem { key, priority: 1.0, times_sampled: 0, trajectory: builder.build().unwrap() }
    /// # }
    /// # use rand_xoshiro::{Xoshiro256PlusPlus, rand_core::SeedableRng};
    /// use relive_table::{Freed, NewItem, Table, TableConfig, Timestamp};
    ///
    /// # let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    /// let mut table = Table::new(TableConfig::new("replay"), Vec::new())?;
    /// let mut freed = Freed::default();
    /// for key in 0..10 {
    ///     table.insert(item(key), Timestamp::EPOCH, &mut rng, &mut freed)?;
    /// }
    /// let mut snapshot = table.begin_capture();
    /// while table.fetch_captured(4, &mut snapshot.items) {
    ///     // Later operations do not affect the capture.
    ///     table.delete(9, &mut freed);
    ///     table.update_priority(8, 5.0)?;
    /// }
    /// drop(table.end_capture());
    /// assert_eq!((snapshot.items.len(), table.len()), (10, 9));
    /// assert!(snapshot.items.iter().all(|item| item.priority == 1.0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn begin_capture(&mut self) -> TableSnapshot {
        let state = &mut self.state;
        state.capture = Some(Box::new(Capture::new(state.sequence.next(), &state.contents.items)));
        TableSnapshot {
            config: Arc::clone(&state.config),
            counters: state.counters(),
            items: Vec::new(),
            structure: None,
        }
    }

    /// Appends the items in the next `slots` slots, and those saved since the last call, to `out` in no particular
    /// order. Returns whether there are more items, or false if no capture is running.
    pub fn fetch_captured(&mut self, slots: usize, out: &mut Vec<StoredItem>) -> bool {
        let State { capture, contents, .. } = &mut self.state;
        capture.as_mut().is_some_and(|capture| capture.fetch(&contents.items, slots, out))
    }

    /// Ends the running capture, if any, whether or not everything was fetched.
    pub fn end_capture(&mut self) -> Option<Box<Capture>> {
        self.state.capture.take()
    }
}

impl State {
    /// Must be called before the item in this slot changes or leaves the table.
    pub(super) fn before_change(&mut self, slot: Slot) {
        if let Some(capture) = &mut self.capture
            && let Some(record) = self.contents.items.get(slot)
        {
            capture.save(slot, record);
        }
    }

    pub(super) fn counters(&self) -> TableCounters {
        TableCounters {
            inserts: self.limiter.inserts(),
            samples: self.limiter.samples_of_cursor(),
            deletes: self.limiter.deletes(),
            deleted_episodes: self.counters.deleted_episodes,
            unique_samples: self.counters.unique_samples,
        }
    }
}
