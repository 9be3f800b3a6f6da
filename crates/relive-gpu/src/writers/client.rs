//! A writer: an environment, often in its own process, that writes trajectories in place.
#![expect(unsafe_code, reason = "the row of a slot becomes a slice here; the block says why it is sound")]

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::bytes::narrow;
use crate::error::{Error, Result};
use crate::kill::kill_point;
use crate::memory::claims::{self, LEFT};
use crate::memory::futex;
use crate::memory::identity::Identity;
use crate::memory::segment::Segment;
use crate::schema::Schema;
use crate::store::{Store, check_column, check_weight};
use relive_gpu_protocol::slot::{FINISHED, HAS_ROW, Slot, WANTS_ROW};

/// How long a wait lasts before it checks whether the controller has died, which wakes no waiter.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Writes trajectories, one after the other, into rows that the controller assigns.
///
/// A round consists of these calls: [`acquire`](Self::acquire) a row; write a step's columns in place and call
/// [`step_inc`](Self::step_inc); request an action, which the controller's process computes, with
/// [`request`](Self::request) and [`wait`](Self::wait); [`finish`](Self::finish). The controller answers when it
/// [scans](Store::scan). If the process ends at any point, its row returns to the store.
#[derive(Debug)]
pub struct Writer {
    segment: Arc<Segment>,
    slot: usize,
    steps: u32,
    has_row: bool,
}

impl Writer {
    /// Attaches to the store with the given name.
    ///
    /// # Errors
    /// No store has this name; its schema differs from the expected one (the error shows both); its controller has
    /// ended; or all its writer slots are taken.
    pub fn attach(name: &str, expected: Option<&Schema>) -> Result<Self> {
        Self::with(Arc::new(Segment::open(name)?), expected)
    }

    /// Attaches to the store whose descriptor ([`Store::descriptor`]) another process has passed on.
    ///
    /// # Errors
    /// Same as [`attach`](Self::attach).
    pub fn attach_descriptor(descriptor: OwnedFd, expected: Option<&Schema>) -> Result<Self> {
        Self::with(Arc::new(Segment::from_descriptor(descriptor)?), expected)
    }

    /// Returns a writer in the controller's process, for another thread.
    ///
    /// # Errors
    /// All writer slots are taken.
    pub fn of(store: &Store) -> Result<Self> {
        Self::with(Arc::clone(store.reader().segment()), None)
    }

    fn with(segment: Arc<Segment>, expected: Option<&Schema>) -> Result<Self> {
        if let Some(schema) = expected {
            segment.expect_schema(schema)?;
        }
        let identity = Identity::current()?;
        let slots = segment.slots();
        let Some(slot) = claims::claim_free(slots.iter().map(|slot| &slot.claim), identity) else {
            return Err(Error::unavailable(format!(
                "all {} writer slots of {} are taken; create the store with more `writers`, or let it scan, \
                 which frees the slots of writers that have ended",
                slots.len(),
                segment.what()
            )));
        };
        kill_point!("claimed");
        let writer = Self { segment, slot, steps: 0, has_row: false };
        writer.beat();
        Ok(writer)
    }

    fn slot(&self) -> &Slot {
        &self.segment.slots()[self.slot]
    }

    /// Records that this process is alive.
    fn beat(&self) {
        self.slot().heartbeat.store(futex::now_ms(), Ordering::Relaxed);
    }

    /// Returns the schema of the trajectories.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        self.segment.schema()
    }

    /// Returns the writer's slot, by which the controller identifies it.
    #[must_use]
    pub fn id(&self) -> usize {
        self.slot
    }

    /// Returns whether the controller has written a column in answer to the last [request](Self::request).
    ///
    /// # Errors
    /// The column does not exist, this writer has no row, or it is not its turn.
    pub fn is_answered(&self, column: usize) -> Result<bool> {
        check_column(self.schema(), column)?;
        self.check_row()?;
        Ok(self.slot().is_answered(column))
    }

    /// Waits until this writer has a row and it is its turn. Returns immediately if both are already true.
    ///
    /// # Errors
    /// The writer has an unfinished trajectory. `Unavailable` if the wait takes longer than `patience`, or the
    /// controller has ended or closed the store.
    pub fn acquire(&mut self, patience: Duration) -> Result<()> {
        if self.steps > 0 {
            return Err(Error::invalid(format!(
                "writer {} has an unfinished trajectory of {} steps; finish or abandon it first",
                self.slot, self.steps
            )));
        }
        let deadline = futex::deadline(patience);
        loop {
            self.wait_until(deadline, patience)?;
            if self.has_row {
                return Ok(());
            }
            self.slot().say(WANTS_ROW, 0, 0.0);
            self.hand_over();
            kill_point!("asked");
        }
    }

    /// Waits until this writer has its turn.
    ///
    /// # Errors
    /// Same as [`acquire`](Self::acquire).
    pub fn wait(&mut self, patience: Duration) -> Result<()> {
        self.wait_until(futex::deadline(patience), patience)
    }

    fn wait_until(&mut self, deadline: Instant, patience: Duration) -> Result<()> {
        if !self.slot().writers_turn() {
            self.slot().waiting.store(1, Ordering::SeqCst);
            let outcome = self.sleep_until(deadline, patience);
            self.slot().waiting.store(0, Ordering::Relaxed);
            outcome?;
        }
        self.beat();
        self.has_row = self.slot().contents().flags & HAS_ROW != 0;
        Ok(())
    }

    fn sleep_until(&self, deadline: Instant, patience: Duration) -> Result<()> {
        loop {
            let turn = self.slot().turn.load(Ordering::SeqCst);
            if turn.is_multiple_of(2) {
                return Ok(());
            }
            let now = Instant::now();
            if now >= deadline {
                return Err(Error::unavailable(format!(
                    "writer {} has waited {patience:?} for its turn; check that the controller scans, and that a row is free",
                    self.slot
                )));
            }
            futex::wait(&self.slot().turn, turn, deadline.min(now + LOOK_EVERY));
            self.beat();
            if Instant::now() >= now + LOOK_EVERY {
                self.segment.check_owner()?;
            }
        }
    }

    /// Hands the turn over to the controller, and wakes it.
    fn hand_over(&self) {
        self.beat();
        self.slot().hand_over();
        let (doorbell, waiting) = self.segment.doorbell();
        doorbell.fetch_add(1, Ordering::SeqCst);
        if waiting.load(Ordering::SeqCst) != 0 {
            futex::wake(doorbell);
        }
    }

    fn check_row(&self) -> Result<()> {
        if !self.slot().writers_turn() {
            let id = self.slot;
            return Err(Error::invalid(format!(
                "it is the controller's turn to answer writer {id}; wait for the answer first"
            )));
        }
        if !self.has_row {
            return Err(Error::invalid(format!("writer {} has no row; acquire one first", self.slot)));
        }
        Ok(())
    }

    /// Returns the number of steps written so far, which is the position of the current one.
    #[must_use]
    pub fn steps(&self) -> u64 {
        u64::from(self.steps)
    }

    /// Returns all steps of a column of the current trajectory, for writing in place.
    ///
    /// # Errors
    /// The column does not exist, this writer has no row, or it is not its turn.
    pub fn column(&mut self, column: usize) -> Result<&mut [u8]> {
        check_column(self.schema(), column)?;
        self.check_row()?;
        let (start, bytes) = self.segment.row(column, self.slot().contents().row);
        // SAFETY: the bytes are within the mapping, which this writer keeps alive. The row was assigned to this slot
        // and is in the state writing; in this writer's turn nothing else accesses it, and the turn cannot end while
        // `&mut self` is borrowed.
        Ok(unsafe { std::slice::from_raw_parts_mut(start, narrow(bytes)) })
    }

    /// Returns the current step of a column, for writing in place.
    ///
    /// # Errors
    /// The errors of [`column`](Self::column), or the trajectory already has the maximum number of steps.
    pub fn step(&mut self, column: usize) -> Result<&mut [u8]> {
        check_column(self.schema(), column)?;
        self.check_step()?;
        let bytes = narrow(self.schema().step_bytes(column));
        let begin = narrow(self.steps()) * bytes;
        Ok(&mut self.column(column)?[begin..begin + bytes])
    }

    fn check_step(&self) -> Result<()> {
        let most = self.schema().max_steps();
        if self.steps() >= most {
            return Err(Error::invalid(format!("the trajectory has all of its {most} steps; finish it")));
        }
        Ok(())
    }

    /// Completes the current step and starts the next one.
    ///
    /// # Errors
    /// Same as [`step`](Self::step).
    pub fn step_inc(&mut self) -> Result<()> {
        self.check_row()?;
        self.check_step()?;
        self.steps += 1;
        kill_point!("stepped");
        Ok(())
    }

    /// Requests the controller's part of the current step, such as an action, and hands the turn over.
    ///
    /// # Errors
    /// This writer has no row, or it is not its turn.
    pub fn request(&mut self) -> Result<()> {
        self.check_row()?;
        self.slot().forget_answers();
        self.slot().say(HAS_ROW, self.steps, 0.0);
        self.hand_over();
        kill_point!("requested");
        Ok(())
    }

    /// Finishes the trajectory: the controller makes it selectable with this weight, and assigns another row to this
    /// writer.
    ///
    /// # Errors
    /// The trajectory has no steps; the weight is negative, infinite or NaN; this writer has no row; or it is not its
    /// turn.
    pub fn finish(&mut self, weight: f32) -> Result<()> {
        self.check_row()?;
        check_weight(weight)?;
        if self.steps == 0 {
            return Err(Error::invalid(
                "the trajectory has no steps; write at least one before you finish it",
            ));
        }
        self.slot().say(HAS_ROW | FINISHED | WANTS_ROW, self.steps, weight);
        kill_point!("said");
        self.steps = 0;
        self.has_row = false;
        self.hand_over();
        kill_point!("finished");
        Ok(())
    }

    /// Abandons the trajectory and starts another one in the same row.
    pub fn abandon(&mut self) {
        self.steps = 0;
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.slot().leave(LEFT);
        kill_point!("left");
        let (doorbell, _) = self.segment.doorbell();
        doorbell.fetch_add(1, Ordering::SeqCst);
        futex::wake(doorbell);
    }
}
