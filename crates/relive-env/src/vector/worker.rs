//! A thread with its share of the environments.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use super::{BatchEnvironment, Vectorized};
use crate::buffer::Buffer;
use crate::environment::Environment;
use crate::error::EnvError;
use crate::timestep::TimeStep;

/// The message between the caller and a thread: memory, and the work to be done with it.
pub(super) struct Share {
    pub(super) work: Work,
    pub(super) actions: Buffer,
    pub(super) observations: Buffer,
    pub(super) answers: Vec<TimeStep>,
    pub(super) outcome: Result<(), EnvError>,
}

#[derive(Clone, Copy)]
pub(super) enum Work {
    Reset,
    Step,
}

/// A thread, as seen by the caller.
pub(super) struct Worker {
    /// The row of the worker's first environment.
    pub(super) first: usize,
    /// The worker's memory, while the worker is idle.
    pub(super) share: Option<Share>,
    orders: Option<SyncSender<Share>>,
    results: Receiver<Share>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    pub(super) fn start<E: Environment + 'static>(
        first: usize,
        environments: Vectorized<E>,
    ) -> Result<Self, EnvError> {
        let share = Share {
            work: Work::Reset,
            actions: environments.actions()?,
            observations: environments.observations()?,
            answers: vec![TimeStep::restart(); environments.len()],
            outcome: Ok(()),
        };
        let (orders, incoming) = sync_channel(1);
        let (outgoing, results) = sync_channel(1);
        let thread = Builder::new()
            .name(format!("relive-env-{first}"))
            .spawn(move || run(environments, &incoming, &outgoing))
            .map_err(|error| EnvError::Failed(format!("cannot start a thread: {error}")))?;
        Ok(Self { first, share: Some(share), orders: Some(orders), results, thread: Some(thread) })
    }

    /// Starts the thread's share of the work; [`finish`](Self::finish) waits for it.
    pub(super) fn begin(&mut self, work: Work) {
        if let (Some(mut share), Some(orders)) = (self.share.take(), &self.orders) {
            share.work = work;
            // `finish` reports a thread that has ended.
            let _ = orders.send(share);
        }
    }

    pub(super) fn finish(&mut self) -> Result<&mut Share, EnvError> {
        if self.share.is_none() {
            self.share = self.results.recv().ok();
        }
        self.share.as_mut().ok_or_else(|| {
            EnvError::Failed(format!(
                "the thread of the environments that start at row {} has panicked",
                self.first
            ))
        })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // The panic was reported when it occurred.
            let _ = thread.join();
        }
    }
}

fn run<E: Environment>(
    mut environments: Vectorized<E>,
    orders: &Receiver<Share>,
    results: &SyncSender<Share>,
) {
    while let Ok(mut share) = orders.recv() {
        let Share { work, actions, observations, answers, outcome } = &mut share;
        *outcome = match work {
            Work::Reset => environments.reset(observations, answers),
            Work::Step => environments.step(actions, observations, answers),
        };
        if results.send(share).is_err() {
            return;
        }
    }
}
