//! Inserts items into tables in this process.
//!
//! There is no task: an item is inserted by the call that creates it, or by the call that cuts the chunk for which it
//! is waiting. If the rate limiter holds an insert back, the table performs it when its turn comes, and reports it
//! through [`Confirmations`].

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use relive_connection::{Deadline, Error, Local, Result, engine_error};
use relive_engine::{
    Accepted, Confirmations, Engine, EngineError, MemoryGate, Operation, Outcome, TableHandle,
};
use relive_table::NewItem;
use relive_tensor::{Ledger, TrajectoryBuilder};

use super::goal::{Goal, Limits, Pending, Unconfirmed, by_table, closed};
use crate::chunks::ChunkSlot;
use crate::items::{PendingItem, uncut_chunks};

/// The hash of an item key is the key itself, since keys are random.
#[derive(Debug, Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

#[derive(Debug)]
pub(crate) struct LocalLink {
    engine: Engine,
    who: Arc<str>,
    limits: Limits,
    /// The gate at which calls that create items wait for memory.
    gate: MemoryGate,
    confirmations: Arc<Confirmations>,
    /// Locked only by calls on the writer, so the lock is never contended.
    state: Mutex<Unsettled>,
}

#[derive(Debug, Default)]
struct Unsettled {
    /// Items that have not been inserted yet, oldest first. The first item is waiting for a chunk to be cut.
    queue: VecDeque<PendingItem>,
    /// Items whose inserts are waiting in their tables.
    deferred: HashMap<u64, PendingItem, BuildHasherDefault<KeyHasher>>,
    /// The number of bytes in the chunks and messages of queued and deferred items. A chunk is counted once.
    pending_bytes: usize,
    /// A permanent error, returned by every later call.
    failure: Option<Error>,
    closed: bool,
    /// The table to which items were most recently written, and the version of the list in which it was found. A table
    /// of an older list may have been dropped.
    table: Option<(u64, TableHandle)>,
    /// Confirmed keys; the list is kept to reuse its memory.
    confirmed: Vec<u64>,
    /// Reuses state from earlier items.
    builder: TrajectoryBuilder,
}

impl LocalLink {
    pub(super) fn new(local: &Local, limits: Limits) -> LocalLink {
        LocalLink {
            gate: local.engine().memory_gate(local.who()),
            engine: local.engine().clone(),
            who: Arc::clone(local.who()),
            limits,
            confirmations: Arc::default(),
            state: Mutex::default(),
        }
    }

    /// Returns the ledger of the chunks.
    pub(super) fn ledger(&self) -> &Arc<Ledger> {
        self.engine.ledger()
    }

    pub(super) fn check(&mut self) -> Result<()> {
        self.state.get_mut().check()
    }

    pub(super) fn fail(&mut self, error: Error) -> Error {
        self.state.get_mut().fail(error)
    }

    pub(super) fn has_room(&mut self, own_bytes: impl Fn() -> u64) -> Result<bool> {
        let state = self.state.get_mut();
        state.settle_all(&self.confirmations);
        state.check()?;
        let has_memory = self.gate.is_open() || self.gate.is_open_beside(own_bytes());
        Ok(has_memory && self.limits.have_room(state.pending()))
    }

    pub(super) fn push(&mut self, items: impl Iterator<Item = PendingItem>) -> Result<()> {
        let state = self.state.get_mut();
        state.check()?;
        let mut run: Vec<PendingItem> = Vec::with_capacity(items.size_hint().0);
        for item in items {
            if !state.queue.is_empty() || !item.is_ready() {
                state.hold(&item);
                state.queue.push_back(item);
                continue;
            }
            if run.first().is_some_and(|first| first.table != item.table) {
                state.insert(&mut run, &self.engine, &self.who, &self.confirmations)?;
            }
            run.push(item);
        }
        state.insert(&mut run, &self.engine, &self.who, &self.confirmations)
    }

    pub(super) fn awaited_chunks(&self, spared: usize) -> Vec<Arc<ChunkSlot>> {
        uncut_chunks(self.state.lock().queue.iter().rev().skip(spared))
    }

    pub(super) fn chunks_were_cut(&mut self, chunks: &[Arc<ChunkSlot>]) -> Result<()> {
        let state = self.state.get_mut();
        state.check()?;
        for chunk in chunks.iter().filter(|chunk| chunk.has_pending_items()) {
            state.pending_bytes += chunk.size_bytes();
        }
        let mut run: Vec<PendingItem> = Vec::new();
        while state.queue.front().is_some_and(PendingItem::is_ready) {
            let Some(item) = state.queue.pop_front() else { break };
            state.release(&item);
            if run.first().is_some_and(|first| first.table != item.table) {
                state.insert(&mut run, &self.engine, &self.who, &self.confirmations)?;
            }
            run.push(item);
        }
        state.insert(&mut run, &self.engine, &self.who, &self.confirmations)
    }

    pub(super) async fn wait_for_room(
        &mut self,
        timeout: Duration,
        own_bytes: impl Fn() -> u64,
    ) -> Result<()> {
        let deadline = Deadline::after(timeout);
        if !self.limits.have_room(self.state.get_mut().pending()) {
            self.wait_for(Goal::Room(self.limits), timeout).await?;
        }
        match deadline.run(self.gate.opened(own_bytes)).await {
            Some(opened) => opened.map_err(|error| engine_error("create_item", error)),
            None => {
                let (state, why) = (self.state.get_mut(), self.engine.memory().reason());
                Err(Goal::Room(self.limits).timed_out(timeout, state.pending(), &state.tables(), &why))
            }
        }
    }

    pub(super) async fn wait_for_pending(&mut self, items: usize, timeout: Duration) -> Result<()> {
        self.wait_for(Goal::Pending(items), timeout).await
    }

    async fn wait_for(&mut self, goal: Goal, timeout: Duration) -> Result<()> {
        let mut deadline = None;
        loop {
            let state = self.state.get_mut();
            state.settle_all(&self.confirmations);
            state.check()?;
            if goal.is_reached(state.pending()) {
                return Ok(());
            }
            let mut outcomes = Vec::new();
            let deadline = *deadline.get_or_insert_with(|| Deadline::after(timeout));
            let settled = poll_fn(|cx| self.confirmations.poll_settled(cx, &mut outcomes));
            if deadline.run(settled).await.is_none() {
                let why = self.missing_reason();
                let state = self.state.get_mut();
                return Err(goal.timed_out(timeout, state.pending(), &state.tables(), &why));
            }
            self.state.get_mut().settle(outcomes);
        }
    }

    /// Describes the condition that holds the items back, as the table's rate limiter reports it.
    fn missing_reason(&mut self) -> String {
        let state = self.state.get_mut();
        if let Some(failure) = &state.failure {
            return failure.to_string();
        }
        let Some(item) = state.deferred.values().next() else {
            return "they are waiting for steps that are not in a chunk yet".to_owned();
        };
        let reason = self.engine.table(&item.table).ok().and_then(|table| {
            let waiters = table.status().waiters.into_iter();
            waiters.filter(|waiter| waiter.operation == Operation::Insert).find_map(|waiter| waiter.shortfall)
        });
        match reason {
            Some(shortfall) => format!("the rate limiter of table {:?} {shortfall}", item.table),
            None => format!("other inserts into table {:?} are ahead", item.table),
        }
    }

    /// Returns the items that are not in any table yet, if there are any.
    pub(super) fn unconfirmed(&mut self) -> Option<Unconfirmed> {
        let state = self.state.get_mut();
        state.settle_all(&self.confirmations);
        let (items, tables, has_failed) = (state.pending().items, state.tables(), state.failure.is_some());
        let why = || self.missing_reason();
        (items > 0).then(why).map(|why| Unconfirmed { items, tables, why, is_away: false, has_failed })
    }

    pub(super) fn pending_items(&self) -> usize {
        let mut state = self.state.lock();
        state.settle_all(&self.confirmations);
        state.pending().items
    }

    pub(super) fn close(&mut self) {
        self.state.get_mut().closed = true;
    }

    pub(super) fn abandon(&mut self) {
        let state = self.state.get_mut();
        state.closed = true;
        state.queue.clear();
        state.deferred.clear();
        state.pending_bytes = 0;
    }
}

impl Unsettled {
    fn check(&self) -> Result<()> {
        match &self.failure {
            Some(failure) => Err(failure.clone()),
            None if self.closed => Err(closed()),
            None => Ok(()),
        }
    }

    /// Describes how many items are waiting for each table.
    fn tables(&self) -> String {
        by_table(self.queue.iter().chain(self.deferred.values()))
    }

    fn pending(&self) -> Pending {
        let queued = self.queue.len();
        Pending { items: queued + self.deferred.len(), queued, bytes: self.pending_bytes }
    }

    /// Inserts `run` and empties it. All its items are for one table, and all their chunks have been cut.
    fn insert(
        &mut self,
        run: &mut Vec<PendingItem>,
        engine: &Engine,
        who: &Arc<str>,
        confirmations: &Arc<Confirmations>,
    ) -> Result<()> {
        let Some(first) = run.first() else { return Ok(()) };
        let version = engine.tables_version();
        let is_current = |(at, table): &(u64, TableHandle)| *at == version && *table.name() == *first.table;
        let table = match self.table.as_ref().filter(|known| is_current(known)) {
            Some((_, table)) => table.clone(),
            None => {
                let found = engine.table(&first.table);
                let table = found.map_err(|error| self.fail(engine_error("insert", error)))?;
                self.table.insert((version, table)).1.clone()
            }
        };
        let accepted = match run.as_slice() {
            [item] => {
                let item = item.to_new_item(&mut self.builder).map_err(|error| self.fail(error))?;
                table.insert(std::iter::once(item), who, confirmations, &mut self.confirmed)
            }
            items => {
                let items = items.iter().map(|item| item.to_new_item(&mut self.builder));
                let items: Result<Vec<NewItem>> = items.collect();
                let items = items.map_err(|error| self.fail(error))?;
                table.insert(items, who, confirmations, &mut self.confirmed)
            }
        };
        self.account(run, accepted)
    }

    /// Records the outcomes of the inserts of `run`.
    fn account(&mut self, run: &mut Vec<PendingItem>, accepted: Result<Accepted, EngineError>) -> Result<()> {
        let accepted = accepted.map_err(|error| self.fail(engine_error("insert", error)))?;
        let mut confirmed = std::mem::take(&mut self.confirmed);
        if accepted.deferred > 0 {
            // Both lists are in the order of creation.
            let mut done = confirmed.iter().copied().peekable();
            for item in run.drain(..) {
                if done.next_if_eq(&item.key).is_none() {
                    self.hold(&item);
                    self.deferred.insert(item.key, item);
                }
            }
        }
        confirmed.clear();
        self.confirmed = confirmed;
        run.clear();
        Ok(())
    }

    fn hold(&mut self, item: &PendingItem) {
        for chunk in item.chunks() {
            if chunk.add_pending_item() {
                self.pending_bytes += chunk.size_bytes();
            }
        }
        self.pending_bytes += item.message_bytes();
    }

    fn release(&mut self, item: &PendingItem) {
        for chunk in item.chunks() {
            if chunk.remove_pending_item() {
                self.pending_bytes -= chunk.size_bytes();
            }
        }
        self.pending_bytes -= item.message_bytes();
    }

    fn settle_all(&mut self, confirmations: &Confirmations) {
        if !self.deferred.is_empty() {
            let mut outcomes = Vec::new();
            confirmations.take_settled(&mut outcomes);
            self.settle(outcomes);
        }
    }

    fn settle(&mut self, outcomes: Vec<Outcome>) {
        for outcome in outcomes {
            match outcome {
                Ok(key) => {
                    if let Some(item) = self.deferred.remove(&key) {
                        self.release(&item);
                    }
                }
                Err(error) => drop(self.fail(engine_error("insert", error))),
            }
        }
    }

    /// Records a permanent error. Returns the first one.
    fn fail(&mut self, error: Error) -> Error {
        self.failure.get_or_insert(error).clone()
    }
}
