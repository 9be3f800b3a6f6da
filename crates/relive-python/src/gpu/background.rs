//! Collects batches while Python continues.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pyo3::prelude::*;
use relive_gpu::{Batch, Collector, ErrorKind, Pinned};

use super::on_device::DeviceBatch;
use super::raise::{Failed, Result};

/// The interval between checks for signals during a wait.
const SLICE: Duration = Duration::from_millis(50);

/// Trajectories that will become a batch, and the channel over which the batch is returned.
struct Job {
    pinned: Arc<Pinned>,
    steps: Vec<u64>,
    done: Sender<Done>,
}

/// The result of a collection. A failure returns the trajectories.
type Done = std::result::Result<Batch, (Arc<Pinned>, Failed)>;

/// The reason why a batch was not made.
pub(super) enum BatchFailure {
    /// A signal handler raised an exception; the batch is still in progress.
    Interrupted(PendingBatch, PyErr),
    /// The batch could not be collected.
    Failed(Arc<Pinned>, Failed),
}

/// A batch in progress.
pub(super) enum PendingBatch {
    /// Collection has not started.
    Pinned(Arc<Pinned>),
    /// The thread is collecting it. The trajectories stay pinned until the batch is returned, so that what a store
    /// removes in the meantime does not depend on the thread's speed, and so that a checkpoint contains them.
    Submitted(Receiver<Done>, Arc<Pinned>),
    /// The device is collecting it.
    OnDevice(DeviceBatch),
}

impl BatchFailure {
    /// Returns the exception to raise in a caller that does not retry.
    pub(super) fn raise(self, py: Python<'_>) -> PyErr {
        match self {
            BatchFailure::Interrupted(_, error) => error,
            BatchFailure::Failed(_, failed) => failed.raise(py),
        }
    }
}

/// Collects batches, in its own thread or on demand. Dropping it waits for the batch that the thread is collecting, so
/// that no trajectory stays pinned.
pub(super) struct Background {
    collector: Collector,
    worker: Option<Worker>,
}

struct Worker {
    jobs: Sender<Job>,
    thread: JoinHandle<()>,
    /// Set if the remaining jobs are not needed.
    is_ending: Arc<AtomicBool>,
}

impl Background {
    /// # Errors
    /// The system cannot start a thread.
    pub(super) fn new(collector: Collector, has_thread: bool) -> Result<Background> {
        if !has_thread {
            return Ok(Background { collector, worker: None });
        }
        let (jobs, taken) = mpsc::channel();
        let is_ending = Arc::new(AtomicBool::new(false));
        let (worker, ends) = (collector.clone(), Arc::clone(&is_ending));
        // The thread ends when `jobs` is dropped.
        let started = thread::Builder::new()
            .name("relive-gpu-loader".to_owned())
            .spawn(move || work(&worker, &taken, &ends));
        let thread = started.map_err(|error| {
            Failed::new(ErrorKind::System, format!("cannot start the thread of a loader: {error}"))
        })?;
        Ok(Background { collector, worker: Some(Worker { jobs, thread, is_ending }) })
    }

    /// Starts the collection if there is a background thread.
    pub(super) fn begin(&self, pinned: Arc<Pinned>, steps: &[u64]) -> PendingBatch {
        let Some(worker) = &self.worker else { return PendingBatch::Pinned(pinned) };
        let (done, receiver) = mpsc::channel();
        match worker.jobs.send(Job { pinned: Arc::clone(&pinned), steps: steps.to_vec(), done }) {
            Ok(()) => PendingBatch::Submitted(receiver, pinned),
            Err(mpsc::SendError(job)) => PendingBatch::Pinned(job.pinned),
        }
    }

    /// Waits for a batch without the interpreter.
    ///
    /// # Errors
    /// The batch could not be made, or a signal handler raised an exception. The error contains the trajectories.
    pub(super) fn finish(
        &self,
        py: Python<'_>,
        batch: PendingBatch,
        steps: &[u64],
    ) -> Result<Batch, Box<BatchFailure>> {
        let done = match batch {
            PendingBatch::Pinned(pinned) => py.detach(|| collect(&self.collector, pinned, steps)),
            PendingBatch::Submitted(receiver, pinned) => match wait(py, receiver) {
                Waited::Done(done) => done,
                Waited::ThreadEnded => {
                    let text = "the thread of the loader ended before its batch was ready".to_owned();
                    Err((pinned, Failed::new(ErrorKind::System, text)))
                }
                Waited::Interrupted(receiver, error) => {
                    let batch = PendingBatch::Submitted(receiver, pinned);
                    return Err(Box::new(BatchFailure::Interrupted(batch, error)));
                }
            },
            PendingBatch::OnDevice(_) => unreachable!("a device's batches are finished by `OnDevice`"),
        };
        done.map_err(|(pinned, failed)| Box::new(BatchFailure::Failed(pinned, failed)))
    }
}

/// The outcome of a wait for a submitted batch.
enum Waited {
    Done(Done),
    /// The thread panicked, so the batch has to be collected in another way.
    ThreadEnded,
    /// A signal handler raised an exception. The batch is still in progress.
    Interrupted(Receiver<Done>, PyErr),
}

fn wait(py: Python<'_>, mut receiver: Receiver<Done>) -> Waited {
    loop {
        let (outcome, back) = py.detach(move || (receiver.recv_timeout(SLICE), receiver));
        match outcome {
            Ok(done) => return Waited::Done(done),
            Err(RecvTimeoutError::Disconnected) => return Waited::ThreadEnded,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Err(error) = py.check_signals() {
            return Waited::Interrupted(back, error);
        }
        receiver = back;
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let Some(Worker { jobs, thread, is_ending }) = self.worker.take() else { return };
        is_ending.store(true, Ordering::Relaxed);
        drop(jobs);
        // A panic of the thread was reported with its batch.
        drop(thread.join());
    }
}

fn work(collector: &Collector, jobs: &Receiver<Job>, is_ending: &AtomicBool) {
    for Job { pinned, steps, done } in jobs {
        if is_ending.load(Ordering::Relaxed) {
            continue;
        }
        // The receiver may be gone.
        drop(done.send(collect(collector, pinned, &steps)));
    }
}

fn collect(collector: &Collector, pinned: Arc<Pinned>, steps: &[u64]) -> Done {
    collector.collect(&pinned, steps).map_err(|error| (pinned, error.into()))
}
