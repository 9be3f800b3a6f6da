//! Acts in environments, one fragment at a time.

use std::time::{Duration, Instant};

use relive_env::{BatchEnvironment, Buffer, State, TimeStep};

use super::evaluation_watch::EvaluationWatch;
use super::finite::{ExtrasCheck, FiniteCheck};
use super::{Acted, Episode, Rollout};
use crate::contracts::WeightStore;
use crate::stop::Stop;
use crate::times::Lap;
use crate::{ActStep, Part, Policy, Result, Weights, state};

/// Environments, the policy that acts in them, and their current state.
pub(crate) struct RolloutWorker {
    environments: Box<dyn BatchEnvironment>,
    policy: Box<dyn Policy>,
    store: WeightStore,
    weights: Option<Weights>,
    observations: Buffer,
    actions: Buffer,
    extras: Buffer,
    extras_check: ExtrasCheck,
    rows: Vec<Row>,
    starts: Vec<bool>,
    answers: Vec<TimeStep>,
    acted: Acted,
    /// The number of steps in each environment, including resets.
    steps: u64,
    is_begun: bool,
}

/// The current episode of a row.
struct Row {
    finite: FiniteCheck,
    length: u64,
    episode_return: f64,
    since: Instant,
    /// The number of further episodes to report.
    episodes_to_report: usize,
}

impl RolloutWorker {
    /// Creates the worker with the given number; its policy loads weights from a store.
    ///
    /// # Errors
    /// The policy's extras do not fit in memory.
    pub(crate) fn new(
        number: u32,
        environments: Box<dyn BatchEnvironment>,
        policy: Box<dyn Policy>,
        weights: WeightStore,
        name: &str,
    ) -> Result<RolloutWorker> {
        let count = environments.len();
        let row = || {
            let mut finite = FiniteCheck::new(environments.spec());
            finite.name(name);
            Row {
                finite,
                length: 0,
                episode_return: 0.0,
                since: Instant::now(),
                episodes_to_report: usize::MAX,
            }
        };
        let extras = policy.extras();
        Ok(RolloutWorker {
            observations: environments.observations()?,
            actions: environments.actions()?,
            extras: Buffer::for_nest(&extras, count)?,
            extras_check: ExtrasCheck::new(&extras),
            rows: std::iter::repeat_with(row).take(count).collect(),
            starts: vec![true; count],
            answers: vec![TimeStep::restart(); count],
            acted: Acted { worker: number, ..Acted::default() },
            environments,
            policy,
            store: weights,
            weights: None,
            steps: 0,
            is_begun: false,
        })
    }

    /// Acts for `steps` steps in each environment with the newest weights.
    ///
    /// # Errors
    /// Errors of the environments and the policy; [`NotFinite`](crate::RlError::NotFinite) if an observation,
    /// a reward or a discount is NaN or infinite, and [`Extras`](crate::RlError::Extras) if an extra of the
    /// policy is NaN.
    pub(crate) fn rollout(&mut self, steps: usize) -> Result<Rollout> {
        self.begin()?;
        let rows = self.rows.len();
        let mut rollout = Rollout {
            steps,
            rows,
            observations: self.observations.with_rows((steps + 1) * rows)?,
            actions: self.actions.with_rows(steps * rows)?,
            extras: self.extras.with_rows(steps * rows)?,
            answers: Vec::with_capacity(steps * rows),
            weights: self.weights.clone(),
            acted: Vec::new(),
        };
        let mut lap = Lap::begin();
        for time in 0..steps {
            rollout.observations.copy_rows(time * rows, &self.observations, 0, rows)?;
            self.step(&mut lap)?;
            rollout.actions.copy_rows(time * rows, &self.actions, 0, rows)?;
            rollout.extras.copy_rows(time * rows, &self.extras, 0, rows)?;
            rollout.answers.extend_from_slice(&self.answers);
        }
        rollout.observations.copy_rows(steps * rows, &self.observations, 0, rows)?;
        rollout.acted.push(self.take_acted());
        Ok(rollout)
    }

    /// Plays `count` complete episodes with the newest weights. Each environment plays a fixed share of these episodes,
    /// one after another, which avoids a bias toward short episodes. The agents of a game play as many games as give
    /// each at least its share, so that none of them counts more than the others. Returns `None` if the run should stop
    /// before the last episode ends.
    ///
    /// # Errors
    /// Same as [`rollout`](Self::rollout).
    pub(crate) fn episodes(&mut self, count: usize, stop: &Stop) -> Result<Option<Vec<Episode>>> {
        if stop.is_at_once() {
            return Ok(None);
        }
        self.is_begun = false;
        self.begin()?;
        let agents = self.environments.agents().max(1);
        let (games, of) = (count.div_ceil(agents), self.rows.len().div_ceil(agents));
        for (number, row) in self.rows.iter_mut().enumerate() {
            row.episodes_to_report = games / of + usize::from(number / agents < games % of);
        }
        let left = |rows: &[Row]| rows.iter().map(|row| row.episodes_to_report).sum::<usize>();
        let mut remaining = left(&self.rows);
        let (mut lap, mut watch) = (Lap::begin(), EvaluationWatch::begin(remaining));
        while !stop.is_at_once() && remaining > 0 {
            self.step(&mut lap)?;
            self.excuse_absent(agents);
            remaining = left(&self.rows);
            watch.note(remaining);
        }
        let is_complete = remaining == 0;
        self.rows.iter_mut().for_each(|row| row.episodes_to_report = usize::MAX);
        let episodes = self.take_acted().episodes;
        Ok(is_complete.then_some(episodes))
    }

    /// Stops waiting for agents that took no part in some games, once others have played their share of games and all
    /// agents that have not are absent.
    fn excuse_absent(&mut self, agents: usize) {
        if agents == 1 {
            return;
        }
        for (rows, answers) in self.rows.chunks_mut(agents).zip(self.answers.chunks(agents)) {
            let is_done = rows.iter().any(|row| row.episodes_to_report == 0);
            let mut waiting = rows.iter().zip(answers).filter(|(row, _)| row.episodes_to_report > 0);
            if is_done && waiting.all(|(_, answer)| answer.first()) {
                rows.iter_mut().for_each(|row| row.episodes_to_report = 0);
            }
        }
    }

    /// Loads the newest weights, and resets the environments unless they are already reset.
    fn begin(&mut self) -> Result<()> {
        if let Some(weights) = self.store.newer_than(self.version()) {
            let mut lap = Lap::begin();
            self.policy.load(&weights)?;
            self.acted.times.add(Part::Weights, lap.lap());
            self.weights = Some(weights);
        }
        if !self.is_begun {
            self.environments.reset(&mut self.observations, &mut self.answers)?;
            for (number, row) in self.rows.iter_mut().enumerate() {
                row.begin();
                row.finite.first(self.observations.row(number))?;
            }
            self.is_begun = true;
        }
        Ok(())
    }

    /// Acts once in each environment.
    fn step(&mut self, lap: &mut Lap) -> Result<()> {
        let Self {
            environments,
            policy,
            observations,
            actions,
            extras,
            extras_check,
            answers,
            rows,
            starts,
            acted,
            ..
        } = self;
        starts.iter_mut().zip(rows).for_each(|(start, row)| *start = row.length == 0);
        let available: Option<&mut dyn BatchEnvironment> = Some(&mut **environments);
        policy.act(&mut ActStep { observations, starts, actions, extras, environments: available })?;
        extras_check.check(extras, policy.name())?;
        acted.times.add(Part::Act, lap.lap());
        environments.step(actions, observations, answers)?;
        acted.times.add(Part::Step, lap.lap());
        self.steps += 1;
        for (number, (row, answer)) in self.rows.iter_mut().zip(&self.answers).enumerate() {
            let observation = self.observations.row(number);
            if answer.first() {
                row.begin();
                row.finite.first(observation)?;
                continue;
            }
            row.finite.next(*answer, observation)?;
            self.acted.env_steps += 1;
            row.length += 1;
            row.episode_return += answer.reward;
            if answer.last() && row.episodes_to_report > 0 {
                row.episodes_to_report -= 1;
                self.acted.episodes.push(row.episode(self.steps));
            }
        }
        Ok(())
    }

    /// Returns the weights with which it last acted.
    pub(crate) fn weights(&self) -> Option<&Weights> {
        self.weights.as_ref()
    }

    fn version(&self) -> Option<u64> {
        self.weights.as_ref().map(Weights::version)
    }

    fn take_acted(&mut self) -> Acted {
        let fresh = Acted { worker: self.acted.worker, ..Acted::default() };
        Acted { version: self.version(), ..std::mem::replace(&mut self.acted, fresh) }
    }

    /// Returns the complete state of the worker except the weights. Environments that cannot save their state are
    /// recorded as not yet started.
    pub(crate) fn save(&mut self) -> Vec<u8> {
        let (environments, is_begun) = (self.environments.save(), self.is_begun);
        self.is_begun = is_begun && environments.is_some();
        let mut parts = [environments.unwrap_or_default(), self.policy.save()];
        let saved = state::save(|state| self.visit(state, &mut parts, Layout::Newest));
        self.is_begun = is_begun;
        saved
    }

    /// Resumes from the state of a worker with the same environments and settings. Environments that were not
    /// started are reset.
    ///
    /// # Errors
    /// [`State`](crate::RlError::State) if the bytes do not encode the state of a worker.
    pub(crate) fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        let mut parts = [Vec::new(), Vec::new()];
        let mut read =
            |layout| state::restore("a worker", bytes, |state| self.visit(state, &mut parts, layout));
        read(Layout::Newest).or_else(|error| read(Layout::WithoutTimes).map_err(|_| error))?;
        let [environments, policy] = parts;
        if self.is_begun {
            self.environments.restore(&environments)?;
        }
        self.policy.restore(&policy)
    }

    fn visit(&mut self, state: &mut State<'_>, parts: &mut [Vec<u8>; 2], layout: Layout) {
        parts.iter_mut().for_each(|part| state.bytes(part));
        state.field(&mut self.is_begun);
        for leaf in 0..self.observations.num_leaves() {
            state.raw_bytes(self.observations.leaf_bytes_mut(leaf).unwrap_or_default());
        }
        for row in &mut self.rows {
            state.field(&mut row.length);
            state.field(&mut row.episode_return);
        }
        state.field(&mut self.acted.env_steps);
        state.field(&mut self.steps);
        if layout == Layout::Newest {
            self.rows.iter_mut().for_each(|row| row.visit_time(state));
        }
    }
}

/// The layout of a saved worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    Newest,
    /// The layout of earlier versions, without the times of the current episodes, which begin anew.
    WithoutTimes,
}

impl Row {
    /// Visits the time since the beginning of the episode.
    fn visit_time(&mut self, state: &mut State<'_>) {
        let now = Instant::now();
        let mut elapsed_ns = u64::try_from(now.duration_since(self.since).as_nanos()).unwrap_or(u64::MAX);
        state.field(&mut elapsed_ns);
        self.since = now.checked_sub(Duration::from_nanos(elapsed_ns)).unwrap_or(now);
    }

    fn begin(&mut self) {
        (self.length, self.episode_return, self.since) = (0, 0.0, Instant::now());
    }

    fn episode(&self, ended_at: u64) -> Episode {
        Episode {
            length: self.length,
            episode_return: self.episode_return,
            duration: self.since.elapsed(),
            ended_at,
        }
    }
}

#[cfg(test)]
mod tests {
    use relive_env::Vectorized;

    use super::*;
    use crate::Saveable;

    /// Always chooses the first action.
    struct First;

    impl Policy for First {
        fn act(&mut self, _: &mut ActStep<'_>) -> Result<()> {
            Ok(())
        }

        fn load(&mut self, _: &Weights) -> Result<()> {
            Ok(())
        }
    }

    impl Saveable for First {
        fn save(&mut self) -> Vec<u8> {
            Vec::new()
        }

        fn restore(&mut self, _: &[u8]) -> Result<()> {
            Ok(())
        }
    }

    fn worker() -> RolloutWorker {
        let environments = vec![relive_env::make("catch/0", 1).unwrap()];
        let environments = Box::new(Vectorized::from_environments(environments).unwrap());
        RolloutWorker::new(0, environments, Box::new(First), WeightStore::default(), "catch/0").unwrap()
    }

    #[test]
    fn an_episode_that_is_saved_and_restored_keeps_its_duration() {
        const STEPS: usize = 5;
        let mut before = worker();
        before.rollout(STEPS).unwrap();
        before.rows[0].since = Instant::now().checked_sub(Duration::from_secs(100)).unwrap();
        let saved = before.save();
        let finish = |saved: &[u8]| {
            let mut worker = worker();
            worker.restore(saved).unwrap();
            worker.rollout(9 - STEPS).unwrap().acted.remove(0).episodes.remove(0)
        };
        let episode = finish(&saved);
        assert_eq!(episode.length, 9);
        assert!((100.0..160.0).contains(&episode.duration.as_secs_f64()), "{episode:?}");
        // Earlier versions do not save the time.
        let episode = finish(&saved[..saved.len() - 8]);
        assert!(episode.length == 9 && episode.duration.as_secs_f64() < 60.0, "{episode:?}");
        assert!(worker().restore(&saved[..saved.len() - 1]).is_err());
    }
}
