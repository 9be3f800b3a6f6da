//! All tables at one moment, collected while they go on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use relive_table::{Snapshot, StoredItem, TableSnapshot};

use super::shared::Engine;
use crate::catalogue::TableHandle;
use crate::limits::{CAPTURE_BEFORE_YIELD, SLOTS_PER_LOCK};
use crate::sync::wall_clock;
use crate::table::{State, TableCore};

/// A snapshot whose items are in no order yet, and what it has cost others.
pub(crate) struct Captured {
    pub(crate) snapshot: Snapshot,
    /// The longest time for which a table was locked.
    pub(crate) longest_pause: Duration,
}

impl Engine {
    /// Every table at one and the same moment, items in the order of their insertion.
    ///
    /// The tables go on meanwhile. They are locked together for as long as it takes to remember where each of them
    /// stands, whatever is in them; then references to their items are collected, about a thousand under one lock. What
    /// inserts and sample requests wait for is no part of a snapshot, nor is what an extension has asked for in another
    /// table and is not done yet. Of two calls at once the second waits for the first.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let mut snapshot = self.capture().snapshot;
        snapshot.tables.iter_mut().for_each(TableSnapshot::sort);
        snapshot
    }

    /// The same with the items in no order: sorting them takes as long as collecting them, and wants no lock.
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
        let snapshot = Snapshot { tables, ledger: Arc::clone(self.ledger()) };
        Captured { snapshot, longest_pause: pauses.longest }
    }
}

/// Begins a capture of every table while all of them are locked.
fn cut(cores: &[TableCore], pauses: &mut Pauses) -> Vec<TableSnapshot> {
    let mut snapshots = Vec::with_capacity(cores.len());
    let mut locked = Vec::with_capacity(cores.len());
    let mut since = None;
    // Whoever else holds several of these locks takes them in the same order.
    for core in cores {
        locked.push(core.shared.state.lock());
        since.get_or_insert_with(Instant::now);
    }
    snapshots.extend(locked.iter_mut().map(|state| state.table.begin_capture()));
    drop(locked);
    pauses.note(since);
    snapshots
}

/// Collects the items of a table whose capture has begun, and ends the capture.
fn collect(table: &TableCore, snapshot: &mut TableSnapshot, pauses: &mut Pauses) {
    let items = snapshot.counters.inserts.saturating_sub(snapshot.counters.deletes);
    snapshot.items.reserve_exact(usize::try_from(items).unwrap_or(0));
    // Those of the slots, and as many that were changed meanwhile: no memory is taken under the lock.
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

/// Ends all captures even if one of them panics: a table in which a capture runs keeps what it removes.
struct EndCaptures<'a>(&'a [TableCore]);

impl Drop for EndCaptures<'_> {
    fn drop(&mut self) {
        for table in self.0 {
            let ended = table.shared.state.lock().table.end_capture();
            drop(ended);
        }
    }
}

/// How long others were held up.
struct Pauses {
    longest: Duration,
    /// When this thread last let others run.
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

    /// Gives the processor away while no lock is held, before the system takes it away while one is.
    fn make_room(&mut self) {
        if self.yielded.elapsed() >= CAPTURE_BEFORE_YIELD {
            std::thread::yield_now();
            self.yielded = Instant::now();
        }
    }
}
