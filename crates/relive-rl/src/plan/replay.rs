//! Experience in replay tables.

use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use relive_client::blocking::{BatchSampler, Client};
use relive_client::{BatchOptions, ErrorKind, SampleBatch};
use relive_engine::TableHandle;
use relive_env::State;
use relive_flow::{Flow, Order, Polled, Pull, Tagged, Turn};

use super::crew::Role;
use super::{Crew, Workers};
use crate::adders::Adder;
use crate::times::{Lap, SharedTimes};
use crate::{Acted, Part, Result, RlError, Rollout, Saveable, state};

/// The number of batches to prefetch while the learner works, if other threads act.
const BATCHES_AHEAD: usize = 1;

/// How long one wait for a batch lasts before the learner checks whether the run continues.
const SLICE: Duration = Duration::from_millis(50);

impl Crew {
    /// Writes rollouts to tables and passes them on. Each row has its own adder, created by `make`.
    pub fn store<A: Adder + Saveable + 'static>(
        &self,
        rollouts: Workers,
        make: impl Fn(&Client) -> Result<A> + Send + Sync + 'static,
    ) -> Workers {
        let (crew, make) = (self.clone(), Arc::new(make));
        rollouts.on_each(move |rollouts, number| {
            let name = format!("adders of worker {number}");
            let (crew, make) = (crew.clone(), Arc::clone(&make));
            let ends_with_tables = crew.has_threads();
            let stored = Stored { adders: Vec::new(), is_begun: false, ends_with_tables };
            let stored = Arc::new(Mutex::new(stored));
            crew.keep_of_episodes(&name, {
                let stored = Arc::clone(&stored);
                Box::new(move || Some(stored.lock().save()))
            });
            let written = rollouts.try_for_each(move |mut rollout| {
                let (mut stored, since) = (stored.lock(), Instant::now());
                if stored.adders.is_empty() {
                    let adders = (0..rollout.rows).map(|_| make(crew.client()));
                    stored.adders = adders.collect::<Result<_>>()?;
                    crew.saved_of_worker(&name).map_or(Ok(()), |saved| stored.restore(saved))?;
                }
                stored.write(&rollout)?;
                Acted::note_time(&mut rollout.acted, Part::Add, since);
                Ok::<_, RlError>(rollout)
            });
            written.named("store")
        })
    }

    /// Returns batches from a table, at the pace that its rate limiter allows. If one thread alternates between acting
    /// and learning, a batch appears as soon as the whole batch may be sampled; otherwise a thread prefetches.
    ///
    /// # Errors
    /// There is no such table.
    pub fn replay(&self, table: &str, batch_size: usize) -> Result<Flow<SampleBatch>> {
        let name = format!("replay({table})");
        if let Role::Worker { .. } = self.role() {
            return Ok(Flow::from_iter(&name, std::iter::empty()));
        }
        let in_turn = self.table_in_turn(table)?;
        let batches = self.client().batches(table, BatchOptions::new(batch_size).prefetch(0))?;
        let (waits, count) = (in_turn.is_none(), i64::try_from(batch_size).unwrap_or(i64::MAX));
        let times = self.times().clone();
        let batches = Flow::from_pull(&name, Batches { batches, in_turn, count, times });
        let batches = if waits { batches.prefetch(BATCHES_AHEAD) } else { batches };
        Ok(batches.try_for_each(|batch| batch).named("batches").measured(SampleBatch::size_bytes))
    }
}

impl Crew {
    /// Returns batches that combine one batch from each of these tables, side by side: a mixture with a fixed number of
    /// items per table, for example of demonstrations and of the agent's own experience, or of several tables that
    /// share the experience.
    ///
    /// # Errors
    /// There is no such table.
    pub fn replay_mixture<N: AsRef<str>>(&self, tables: &[(N, usize)]) -> Result<Flow<Vec<SampleBatch>>> {
        if let [(table, batch_size)] = tables {
            return Ok(self
                .replay(table.as_ref(), *batch_size)?
                .for_each(|batch| vec![batch])
                .named("batches"));
        }
        let batches = tables.iter().map(|(table, batch_size)| self.replay(table.as_ref(), *batch_size));
        let batches = batches.collect::<Result<Vec<_>>>()?;
        Ok(Flow::union(batches, Order::RoundRobin).batch(tables.len()))
    }
}

/// The adders of a worker, one per row.
struct Stored<A: Adder> {
    adders: Vec<A>,
    is_begun: bool,
    /// Whether the adders end together with their tables, as they do in threads of a run; items that the rate limiter
    /// still blocks are then no longer needed. Workers in other processes, and runs in one thread, end before their
    /// tables.
    ends_with_tables: bool,
}

impl<A: Adder> Drop for Stored<A> {
    fn drop(&mut self) {
        if self.ends_with_tables {
            self.adders.iter_mut().for_each(Adder::discard);
        }
    }
}

impl<A: Adder + Saveable> Stored<A> {
    fn write(&mut self, rollout: &Rollout) -> Result<()> {
        for (row, adder) in self.adders.iter_mut().enumerate() {
            if !self.is_begun {
                adder.add_first(rollout.observations.row(row))?;
            }
            for cell in (row..rollout.steps * rollout.rows).step_by(rollout.rows) {
                let observation = rollout.observations.row(cell + rollout.rows);
                match rollout.answers[cell] {
                    answer if answer.first() => adder.add_first(observation)?,
                    answer => {
                        let (action, extras) = (rollout.actions.row(cell), rollout.extras.row(cell));
                        adder.add_with_extras(action, answer, observation, extras)?;
                    }
                }
            }
        }
        self.is_begun = true;
        Ok(())
    }

    fn save(&mut self) -> Vec<u8> {
        let mut parts: Vec<_> = self.adders.iter_mut().map(Saveable::save).collect();
        state::save(|state| self.visit(state, &mut parts))
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        let mut parts = vec![Vec::new(); self.adders.len()];
        state::restore("the adders of a worker", bytes, |state| self.visit(state, &mut parts))?;
        self.adders.iter_mut().zip(&parts).try_for_each(|(adder, part)| adder.restore(part))
    }

    fn visit(&mut self, state: &mut State<'_>, parts: &mut [Vec<u8>]) {
        state.field(&mut self.is_begun);
        parts.iter_mut().for_each(|part| state.bytes(part));
    }
}

/// Batches from a table.
struct Batches {
    batches: BatchSampler,
    /// The table, if the thread must not wait for a batch.
    in_turn: Option<TableHandle>,
    count: i64,
    times: SharedTimes,
}

impl Pull<Result<SampleBatch>> for Batches {
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<Result<SampleBatch>> {
        let timeout = match &self.in_turn {
            Some(table) if !table.can_sample(self.count).unwrap_or(false) => return Poll::Pending,
            Some(_) => None,
            None => Some(SLICE),
        };
        let mut lap = Lap::begin();
        let next = self.batches.next_within(timeout);
        self.times.add(Part::Sample, lap.lap());
        match next {
            Some(Err(error)) if error.kind() == ErrorKind::Timeout => {
                // The puller may have been stopped in the meantime.
                turn.wake_at(Instant::now());
                Poll::Pending
            }
            batch => Poll::Ready(
                batch.map(|batch| Ok(Tagged { item: batch.map_err(RlError::from), source: None })),
            ),
        }
    }
}
