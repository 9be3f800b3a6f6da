//! A snapshot of all tables at one point in time, collected while the tables stay in use.

use std::sync::Arc;
use std::time::{Duration, Instant};

use relive_table::{Snapshot, StoredItem, TableSnapshot};

use super::shared::Engine;
use crate::catalogue::TableHandle;
use crate::limits::{CAPTURE_BEFORE_YIELD, SLOTS_PER_LOCK};
use crate::sync::wall_clock;
use crate::table::{State, TableCore};

/// A snapshot with unsorted items, and the pauses that it caused.
pub(crate) struct Captured {
    pub(crate) snapshot: Snapshot,
    /// The longest time for which a table was locked.
    pub(crate) longest_pause: Duration,
}

impl Engine {
    /// Returns the state of all tables at a single point in time, with items in insertion order.
    ///
    /// The tables stay in use. All tables are locked together only while their positions are recorded, which takes the
    /// same time regardless of their content. References to their items are then collected, about a thousand under each
    /// lock. A snapshot contains neither waiting inserts and sample requests, nor unfinished operations that an
    /// extension requested in another table. If two calls are concurrent, the second call waits for the first.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let mut snapshot = self.capture().snapshot;
        snapshot.tables.iter_mut().for_each(TableSnapshot::sort);
        snapshot
    }

    /// Like [`snapshot`](Self::snapshot), but leaves the items unsorted: sorting takes as long as collecting and needs
    /// no lock.
    pub(crate) fn capture(&self) -> Captured {
        let _turn = self.capture_turn().lock();
        let tables = self.tables();
        let cores: Vec<TableCore> = tables.iter().flat_map(TableHandle::cores).cloned().collect();
        let mut pauses = Pauses::default();
        let end = EndCaptures(&cores);
        let mut parts = cut(&cores, &mut pauses);
        for (core, part) in cores.iter().zip(&mut parts) {
            collect(core, part, &mut pauses);
        }
        drop(end);
        let mut parts = parts.into_iter();
        let whole = |table: &TableHandle| {
            let structure = table.structure().filter(|structure| !structure.is_signature);
            Some(TableSnapshot { structure, ..table.merged(&mut parts)? })
        };
        let tables = tables.iter().filter_map(whole).collect();
        let snapshot = Snapshot { tables, ledger: Arc::clone(self.ledger()), lacks_own_rules: false };
        Captured { snapshot, longest_pause: pauses.longest }
    }
}

/// Locks all tables together and begins a capture of each.
fn cut(cores: &[TableCore], pauses: &mut Pauses) -> Vec<TableSnapshot> {
    let mut snapshots = Vec::with_capacity(cores.len());
    let mut locked = Vec::with_capacity(cores.len());
    let mut since = None;
    // All code that holds several of these locks takes them in the same order.
    for core in cores {
        locked.push(core.shared.state.lock());
        since.get_or_insert_with(Instant::now);
    }
    snapshots.extend(locked.iter_mut().map(|state| state.table.begin_capture()));
    drop(locked);
    pauses.note(since);
    snapshots
}

/// Collects the items of a table after its capture has begun, then ends the capture.
fn collect(table: &TableCore, snapshot: &mut TableSnapshot, pauses: &mut Pauses) {
    let items = snapshot.counters.inserts.saturating_sub(snapshot.counters.deletes);
    snapshot.items.reserve_exact(usize::try_from(items).unwrap_or(0));
    // The vector has room for the items in the slots and for an equal number of items that have changed in the
    // meantime, so that nothing is allocated under the lock.
    let mut piece: Vec<StoredItem> = Vec::with_capacity(2 * SLOTS_PER_LOCK);
    loop {
        let mut state = table.shared.state.lock();
        let since = Instant::now();
        let more = state.table.fetch_captured(SLOTS_PER_LOCK, &mut piece);
        let ended = if more { None } else { state.table.end_capture() };
        State::unlock(state, wall_clock());
        pauses.note(Some(since));
        snapshot.items.append(&mut piece);
        drop(ended);
        if !more {
            return;
        }
        pauses.make_room();
    }
}

/// Ends all captures, even after a panic. Otherwise, the tables would keep their removed items.
struct EndCaptures<'a>(&'a [TableCore]);

impl Drop for EndCaptures<'_> {
    fn drop(&mut self) {
        for table in self.0 {
            let ended = table.shared.state.lock().table.end_capture();
            drop(ended);
        }
    }
}

/// The pauses that a capture causes for other threads.
struct Pauses {
    longest: Duration,
    /// When this thread last yielded.
    yielded: Instant,
}

impl Default for Pauses {
    fn default() -> Self {
        Self { longest: Duration::ZERO, yielded: Instant::now() }
    }
}

impl Pauses {
    fn note(&mut self, since: Option<Instant>) {
        self.longest = self.longest.max(since.map_or(Duration::ZERO, |since| since.elapsed()));
    }

    /// Yields the processor while no lock is held, so that the system does not preempt the thread while it holds a
    /// lock.
    fn make_room(&mut self) {
        if self.yielded.elapsed() >= CAPTURE_BEFORE_YIELD {
            std::thread::yield_now();
            self.yielded = Instant::now();
        }
    }
}
