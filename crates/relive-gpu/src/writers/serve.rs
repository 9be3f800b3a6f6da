//! The controller's side of writers: their requests, and how they are handled.
#![expect(unsafe_code, reason = "steps are copied by address; each block says why it is sound")]

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::bytes::{narrow, wide};
use crate::error::{Error, Result};
use crate::memory::claims::{self, LEFT, NOBODY};
use crate::memory::{futex, segment};
use crate::metrics::Metrics;
use crate::store::{
    Inner, Inserted, Place, SWEEP_EVERY, Store, WriterSlot, WriterSlots, check_column, check_length,
    check_weight,
};
use relive_gpu_protocol::slot::{FINISHED, Slot, SlotContents, WANTS_ROW};

/// The age of a writer's last heartbeat from which the controller checks whether the writer is dead.
const QUIET_MS: u64 = 100;
/// How long a wait lasts before it checks for dead writers, which do not wake it.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The corresponding time while writers are waiting for rows. It is shorter because dropping a batch frees rows without
/// waking this wait.
const STARVED_EVERY: Duration = Duration::from_millis(5);

/// Marks the scan as over when dropped.
struct Scanning<'a>(&'a Cell<bool>);

impl Drop for Scanning<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// A request from a writer that is waiting for the controller's part of its current step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The writer's slot.
    pub slot: usize,
    /// The index that the writer's trajectory will have.
    pub index: u64,
    /// The current step.
    pub step: u64,
    /// The generation that the writer's trajectory will have. After the end of a writer, another one may have its slot.
    pub generation: u64,
}

/// The result of a scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Scan {
    /// Requests that no earlier scan has reported.
    pub requests: Vec<Request>,
    /// Trajectories that have become selectable.
    pub finished: Vec<Inserted>,
    /// The number of trajectories that were abandoned because their writers ended or wrote invalid values.
    pub aborted: u64,
    /// The number of writers that are waiting because no row is free. The next scan tries again.
    pub starved: u64,
}

impl Store {
    /// Visits all writers: makes finished trajectories selectable, assigns rows to writers that need them, reclaims the
    /// rows of writers that have ended, and returns new requests. Waits for a scan by another thread to end.
    ///
    /// # Errors
    /// The store's removal function scans, or the system does not show which processes are alive. The next scan returns
    /// what this one has found.
    pub fn scan(&self) -> Result<Scan> {
        let scanning = self.inner.scanning.lock();
        if scanning.replace(true) {
            return Err(Error::invalid("a removal function cannot scan the store that calls it"));
        }
        let _until_return = Scanning(&scanning);
        let mut scan = self.take_undelivered();
        let now = futex::now_ms();
        for (number, slot) in self.inner.segment.slots().iter().enumerate() {
            if let Err(error) = self.visit(number, slot, now, &mut scan) {
                self.put_back(scan);
                return Err(error);
            }
        }
        self.inner.writers.lock().starved = scan.starved > 0;
        Ok(scan)
    }

    /// Takes back the result of a scan that the caller could not process; the next scan returns it again.
    pub fn put_back(&self, scan: Scan) {
        let mut writers = self.inner.writers.lock();
        for request in scan.requests {
            if let Some(slot) = writers.slots.get_mut(request.slot) {
                slot.reported = false;
            }
        }
        let shard = self.inner.shard;
        let place = |inserted: Inserted| {
            let row = shard.local(inserted.index).ok()?;
            Some(Place { row, generation: inserted.generation })
        };
        writers.finished.extend(scan.finished.into_iter().filter_map(place));
        writers.aborted += scan.aborted;
    }

    fn take_undelivered(&self) -> Scan {
        let mut writers = self.inner.writers.lock();
        let finished = std::mem::take(&mut writers.finished);
        let finished = finished.into_iter().map(|place| inserted(&self.inner, place)).collect();
        Scan { finished, aborted: std::mem::take(&mut writers.aborted), ..Scan::default() }
    }

    /// Handles the request of one writer, if it has one, or its end.
    fn visit(&self, number: usize, slot: &Slot, now: u64, scan: &mut Scan) -> Result<()> {
        let claim = slot.claim.load(Ordering::Acquire);
        if claim == NOBODY {
            return Ok(());
        }
        let mut writers = self.inner.writers.lock();
        let remembered = &mut writers.slots[number];
        let has_ended = claim == LEFT || remembered.is_dead(slot, claim, now);
        if !has_ended && (slot.writers_turn() || remembered.reported) {
            return Ok(());
        }
        let contents = slot.contents();
        let is_finished = slot.controllers_turn() && contents.flags & FINISHED != 0;
        if let (Some(place), false, false) = (remembered.place, has_ended, is_finished) {
            remembered.reported = true;
            let (index, generation) = (self.inner.shard.global(place.row), place.generation);
            let step = u64::from(contents.steps);
            scan.requests.push(Request { slot: number, index, step, generation });
            return Ok(());
        }
        let place = remembered.place.take();
        remembered.reported = false;
        if has_ended {
            slot.clear(NOBODY);
        }
        // Settling and assigning rows may call a removal function, which may use the store.
        drop(writers);
        match place {
            Some(place) if is_finished => settle(&self.inner, place, contents, scan),
            Some(place) => give_up(&self.inner, place, scan),
            None => {}
        }
        if has_ended {
            if claim != LEFT {
                Metrics::add(&self.inner.metrics.dead_writers, 1);
            }
            return Ok(());
        }
        slot.clear_row();
        if contents.flags & WANTS_ROW != 0 && !self.assign_row(number, slot)? {
            scan.starved += 1;
            return Ok(());
        }
        give(slot);
        Ok(())
    }

    /// Assigns a row to a writer. Returns `false` if no row is free.
    fn assign_row(&self, number: usize, slot: &Slot) -> Result<bool> {
        let Some(place) = self.take_row()? else { return Ok(false) };
        self.inner.writers.lock().slots[number].place = Some(place);
        slot.assign(place.row, place.generation);
        Ok(true)
    }

    /// Takes a row for a writer. While writers are waiting for rows, scans are frequent, and only some of them check for
    /// dead readers.
    fn take_row(&self) -> Result<Option<Place>> {
        let place = self.inner.try_allocate();
        if place.is_some() || !self.may_sweep() || self.inner.sweep()? == 0 {
            return Ok(place);
        }
        Ok(self.inner.try_allocate())
    }

    /// Returns whether it is time to check for dead readers.
    fn may_sweep(&self) -> bool {
        let now = Instant::now();
        let swept = &mut self.inner.writers.lock().swept;
        let is_due = swept.is_none_or(|last| now.duration_since(last) >= SWEEP_EVERY);
        if is_due {
            *swept = Some(now);
        }
        is_due
    }

    /// Waits until a writer appears to need something; call [`scan`](Self::scan) then. Returns `false` after
    /// `patience`.
    #[must_use]
    pub fn wait_for_writers(&self, patience: Duration) -> bool {
        let deadline = futex::deadline(patience);
        let (doorbell, waiting) = self.inner.segment.doorbell();
        waiting.store(1, Ordering::SeqCst);
        let seen = doorbell.load(Ordering::SeqCst);
        let starved = self.inner.writers.lock().starved;
        let slice = if starved { STARVED_EVERY } else { LOOK_EVERY };
        let until = deadline.min(Instant::now() + slice);
        if !self.needs_scan() {
            futex::wait(doorbell, seen, until);
        }
        waiting.store(0, Ordering::Relaxed);
        self.needs_scan() || Instant::now() < deadline
    }

    /// Returns whether a writer is waiting for a scan.
    fn needs_scan(&self) -> bool {
        let writers = self.inner.writers.lock();
        let mut slots = self.inner.segment.slots().iter().zip(&writers.slots);
        slots.any(|(slot, remembered)| {
            let claim = slot.claim.load(Ordering::Acquire);
            claim == LEFT
                || (claim != NOBODY && slot.controllers_turn() && !remembered.reported && !writers.starved)
        })
    }

    /// Gives the turn back to writers whose requests have been answered. A writer that has ended since is skipped.
    ///
    /// # Errors
    /// A request has already been given back, or no scan has reported it; the requests before it are still given back.
    pub fn give_back(&self, requests: &[Request]) -> Result<()> {
        let mut writers = self.inner.writers.lock();
        for request in requests {
            if self.open_place(&writers, request)?.is_some() {
                writers.slots[request.slot].reported = false;
                give(&self.inner.segment.slots()[request.slot]);
            }
        }
        Ok(())
    }

    /// Writes a column of the current step of a writer whose request has been reported and whose turn has not been given
    /// back yet. The writer sees which columns were written. Returns `false` if the writer has ended since.
    ///
    /// # Errors
    /// The request or column does not exist, or the length differs from the length of one step of the column.
    pub fn answer(&self, request: &Request, column: usize, bytes: &[u8]) -> Result<bool> {
        self.with_step(request, column, bytes.len(), |start, count| {
            // SAFETY: `start` is a step of the writer's row with `count` bytes, and the writer waits for its turn.
            unsafe { segment::write(start, &bytes[..count]) };
            self.inner.segment.slots()[request.slot].note_answered(column);
        })
    }

    /// Reads the current step of a writer whose request has been reported and whose turn has not been given back yet.
    /// Returns `false`, and leaves `bytes` unchanged, if the writer has ended since.
    ///
    /// # Errors
    /// Same as [`answer`](Self::answer).
    pub fn observe(&self, request: &Request, column: usize, bytes: &mut [u8]) -> Result<bool> {
        self.with_step(request, column, bytes.len(), |start, count| {
            // SAFETY: As above.
            unsafe { segment::read(start, &mut bytes[..count]) };
        })
    }

    fn with_step(
        &self,
        request: &Request,
        column: usize,
        bytes: usize,
        act: impl FnOnce(*mut u8, usize),
    ) -> Result<bool> {
        let segment = &self.inner.segment;
        check_column(segment.schema(), column)?;
        let expected = segment.schema().step_bytes(column);
        if wide(bytes) != expected {
            let name = &segment.schema().columns()[column].name;
            return Err(Error::invalid(format!(
                "got {bytes} bytes for a step of column {name:?}, which needs {expected}"
            )));
        }
        // The lock is held until the end, so that no other thread gives the slot back in the meantime.
        let writers = self.inner.writers.lock();
        let Some(place) = self.open_place(&writers, request)? else { return Ok(false) };
        let step = u64::from(segment.slots()[request.slot].contents().steps);
        if step >= segment.schema().max_steps() {
            let slot = request.slot;
            return Err(Error::invalid(format!(
                "writer {slot} has written all {step} steps; there is no request to answer"
            )));
        }
        let (start, _) = segment.row(column, place.row);
        act(start.wrapping_add(narrow(step * expected)), bytes);
        Ok(true)
    }

    /// Returns the place of the writer's trajectory, or `None` if the writer has ended since its request, even if another
    /// writer has its slot.
    fn open_place(&self, writers: &WriterSlots, request: &Request) -> Result<Option<Place>> {
        let remembered = writers.slots.get(request.slot).ok_or_else(|| no_request(request.slot))?;
        let row = self.inner.shard.local(request.index)?;
        let place = Place { row, generation: request.generation };
        if remembered.place != Some(place) {
            return Ok(None);
        }
        if !remembered.reported {
            return Err(no_request(request.slot));
        }
        Ok(Some(place))
    }
}

fn no_request(slot: usize) -> Error {
    Error::not_found(format!("writer {slot} has no open request that a scan has reported"))
}

/// Hands the turn to the writer, and wakes it.
fn give(slot: &Slot) {
    slot.hand_over();
    if slot.waiting.load(Ordering::SeqCst) != 0 {
        futex::wake(&slot.turn);
    }
}

impl WriterSlot {
    /// Returns whether the writer has ended; this is only checked if it has been silent for a while.
    fn is_dead(&mut self, slot: &Slot, claim: u64, now: u64) -> bool {
        let quiet = now.saturating_sub(slot.heartbeat.load(Ordering::Relaxed));
        if quiet < QUIET_MS || now.saturating_sub(self.looked_ms) < QUIET_MS {
            return false;
        }
        self.looked_ms = now;
        claims::is_dead(claim)
    }
}

/// Makes a finished trajectory selectable, if the writer's values are valid.
fn settle(store: &Inner, place: Place, contents: SlotContents, scan: &mut Scan) {
    let length = check_length(store.segment.schema(), u64::from(contents.steps));
    match (length, check_weight(contents.weight)) {
        (Ok(length), Ok(())) => {
            store.make_room();
            store.commit(place, length, contents.weight);
            scan.finished.push(inserted(store, place));
        }
        _ => give_up(store, place, scan),
    }
}

fn inserted(store: &Inner, place: Place) -> Inserted {
    Inserted { index: store.shard.global(place.row), generation: place.generation }
}

fn give_up(store: &Inner, place: Place, scan: &mut Scan) {
    store.abort(place);
    scan.aborted += 1;
}
