//! Many environments on several threads.

use std::fmt;

use super::batch::checked_count;
use super::worker::{Work, Worker};
use super::{BatchEnvironment, Vectorized};
use crate::buffer::Buffer;
use crate::environment::Environment;
use crate::error::{EnvError, Mismatch};
use crate::limits::MAX_THREADS;
use crate::spec::EnvironmentSpec;
use crate::timestep::TimeStep;

/// Environments distributed over threads. Waking a thread takes about 10 µs, so threads are worthwhile only if the
/// steps of each thread's environments take much longer. If steps are as cheap as in the native environments, one
/// thread ([`Vectorized`]) completes hundreds of them in 10 µs.
///
/// Answers are the same as in [`Vectorized`], in the same rows.
pub struct ThreadedEnvironments {
    workers: Vec<Worker>,
    spec: EnvironmentSpec,
    count: usize,
}

impl ThreadedEnvironments {
    /// Creates `count` environments on `threads` threads, or on `count` threads if that is less.
    ///
    /// # Errors
    /// [`EnvError::Setting`] if there are zero or too many environments or threads, [`EnvError::Spec`] if the
    /// environments differ in their specs, [`EnvError::Failed`] if the system cannot create a thread.
    pub fn new<E: Environment + 'static>(
        count: usize,
        threads: usize,
        make: impl FnMut(usize) -> E,
    ) -> Result<Self, EnvError> {
        if !(1..=MAX_THREADS).contains(&threads) {
            let expected = format_args!("1..={MAX_THREADS}");
            return Err(EnvError::Setting(Mismatch::boxed("threads", expected, threads)));
        }
        let all = Vectorized::new(checked_count(count)?, make)?;
        let spec = all.spec().clone();
        let mut rest = all.into_environments();
        let (threads, mut workers) = (threads.min(count), Vec::new());
        for index in (0..threads).rev() {
            let first = index * count / threads;
            let share = Vectorized::from_environments(rest.split_off(first))?.numbered_from(first);
            workers.push(Worker::start(first, share)?);
        }
        workers.reverse();
        Ok(Self { workers, spec, count })
    }

    /// Runs before any environment is stepped, so that an error leaves all environments unchanged.
    fn check_layout(&self, actions: Option<&Buffer>, observations: &Buffer) -> Result<(), EnvError> {
        for share in self.workers.iter().filter_map(|worker| worker.share.as_ref()) {
            share.observations.expect_leaves_of(observations)?;
            actions
                .map_or(Ok(()), |actions| share.actions.expect_leaves_of(actions))
                .map_err(EnvError::of_action)?;
        }
        Ok(())
    }

    /// Starts the work on all threads, waits for all of them, and only then returns the first error.
    fn all(
        &mut self,
        work: Work,
        actions: Option<&Buffer>,
        observations: &mut Buffer,
        answers: &mut [TimeStep],
    ) -> Result<(), EnvError> {
        self.check_layout(actions, observations)?;
        for worker in &mut self.workers {
            let first = worker.first;
            if let (Some(actions), Some(share)) = (actions, &mut worker.share) {
                let rows = share.actions.rows();
                share.actions.copy_rows(0, actions, first, rows)?;
            }
            worker.begin(work);
        }
        let mut outcome = Ok(());
        for worker in &mut self.workers {
            let gathered = gather(worker, observations, answers);
            outcome = outcome.and(gathered);
        }
        outcome
    }
}

/// Gathers the answers, or returns the first error.
fn gather(worker: &mut Worker, observations: &mut Buffer, answers: &mut [TimeStep]) -> Result<(), EnvError> {
    let first = worker.first;
    let share = worker.finish()?;
    let rows = share.answers.len();
    let outcome = std::mem::replace(&mut share.outcome, Ok(()));
    outcome?;
    observations.copy_rows(first, &share.observations, 0, rows)?;
    answers[first..first + rows].copy_from_slice(&share.answers);
    Ok(())
}

impl fmt::Debug for ThreadedEnvironments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threads = self.workers.len();
        f.debug_struct("ThreadedEnvironments").field("count", &self.count).field("threads", &threads).finish()
    }
}

impl BatchEnvironment for ThreadedEnvironments {
    fn len(&self) -> usize {
        self.count
    }

    fn spec(&self) -> &EnvironmentSpec {
        &self.spec
    }

    fn reset(&mut self, observations: &mut Buffer, answers: &mut [TimeStep]) -> Result<(), EnvError> {
        self.expect_rows(&[observations.rows(), answers.len()])?;
        self.all(Work::Reset, None, observations, answers)
    }

    fn step(
        &mut self,
        actions: &Buffer,
        observations: &mut Buffer,
        answers: &mut [TimeStep],
    ) -> Result<(), EnvError> {
        self.expect_rows(&[actions.rows(), observations.rows(), answers.len()])?;
        self.all(Work::Step, Some(actions), observations, answers)
    }
}
