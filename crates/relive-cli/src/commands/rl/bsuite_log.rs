//! bsuite's log of the training environments.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use relive_env::bsuite::{self, BsuiteEnvironment, BsuiteId, LogRow, is_logged_episode};
use relive_env::{Action, EnvError, Environment, EnvironmentSpec, State, TimeStep, ViewMut};
use relive_rl::run::RunOptions;

/// Holds the logs of a run's training environments. They are identified by their seeds; the environments for
/// evaluations and demonstrations have other seeds.
#[derive(Clone)]
pub(super) struct LogKeeper {
    /// Determines the seeds.
    run: Arc<RunOptions>,
    kept: Arc<Mutex<Kept>>,
}

#[derive(Default)]
struct Kept {
    /// The seeds of the training environments so far, by number.
    seeds: Vec<u64>,
    /// A row for each episode of each training environment, by number.
    logs: BTreeMap<usize, (BsuiteId, Vec<LogRow>)>,
}

impl LogKeeper {
    /// Keeps the logs of a run, whose environments are all stepped by the same process.
    pub(super) fn new(run: &RunOptions) -> LogKeeper {
        let (environment, seed) = (run.environment.clone(), run.seed);
        let run = Arc::new(RunOptions { environment, seed, ..RunOptions::default() });
        LogKeeper { run, kept: Arc::default() }
    }

    /// Returns an environment that may be a training environment.
    pub(super) fn watch(&self, id: BsuiteId, seed: u64) -> Result<LoggedEnvironment, EnvError> {
        let environment = id.load(u32::try_from(seed).unwrap_or(u32::MAX))?;
        let (number, kept) = (self.number(seed), Arc::clone(&self.kept));
        Ok(LoggedEnvironment { id, environment, number, kept, now: LogRow::default(), rows: Vec::new() })
    }

    /// Returns the number of the training environment with the given seed. They are created in the order of their
    /// numbers.
    fn number(&self, seed: u64) -> Option<usize> {
        let seeds = &mut self.kept.lock().seeds;
        if seed == self.run.environment_seed(seeds.len()) {
            seeds.push(seed);
        }
        seeds.iter().position(|known| *known == seed)
    }

    /// Returns the file's name and contents.
    pub(super) fn csv(&self) -> Option<(String, String)> {
        let logs = &self.kept.lock().logs;
        let (id, _) = logs.values().next()?;
        let of_all: Vec<&[LogRow]> = logs.values().map(|(_, rows)| &rows[..]).collect();
        Some((id.csv_file_name(), bsuite::write_csv(&merged(&of_all))))
    }
}

/// Returns the log of environments that are stepped together, as if it was one environment's, from a row for each of
/// their episodes.
fn merged(logs: &[&[LogRow]]) -> Vec<LogRow> {
    let rows = logs.iter().enumerate().flat_map(|(number, rows)| rows.iter().map(move |row| (number, row)));
    let mut rows: Vec<_> = rows.collect();
    rows.sort_by_key(|(number, row)| (time(row), *number));
    let (mut newest, mut log) = (vec![LogRow::default(); logs.len()], Vec::new());
    for (episode, (number, row)) in (1..).zip(rows) {
        newest.get_mut(number).into_iter().for_each(|newest| newest.clone_from(row));
        if is_logged_episode(episode) {
            let steps = newest.iter().map(|newest| steps_at(time(row), newest)).sum();
            let total_return = newest.iter().map(|newest| newest.total_return).sum();
            let total = |(name, _): &(String, f64)| (name.clone(), total(&newest, name));
            let totals = row.totals.iter().map(total).collect();
            log.push(LogRow { steps, episode, total_return, totals, ..row.clone() });
        }
    }
    log
}

/// Returns the time of a row: the number of steps of its environment, including a reset after each episode.
fn time(row: &LogRow) -> u64 {
    row.steps + row.episode
}

/// Returns the number of actions in an environment at a time, from the row of its newest episode at that time.
fn steps_at(time: u64, newest: &LogRow) -> u64 {
    let since = time - self::time(newest);
    // The first of these steps resets the environment.
    newest.steps + since.saturating_sub(1)
}

/// Returns the sum of a total of all environments, or the maximum if that is what the environment keeps.
fn total(newest: &[LogRow], name: &str) -> f64 {
    let each = newest.iter().filter_map(|row| row.total(name));
    if name == "best_episode" { each.reduce(f64::max).unwrap_or_default() } else { each.sum() }
}

/// A bsuite environment whose log outlives it.
pub(super) struct LoggedEnvironment {
    id: BsuiteId,
    environment: Box<dyn BsuiteEnvironment>,
    /// The number of the training environment.
    number: Option<usize>,
    kept: Arc<Mutex<Kept>>,
    now: LogRow,
    /// A row for each episode.
    rows: Vec<LogRow>,
}

impl LoggedEnvironment {
    fn track(&mut self, step: TimeStep) {
        if self.now.count(step) {
            self.rows.push(self.now.with_totals(&self.environment));
        }
    }

    fn visit(state: &mut State<'_>, inner: &mut Vec<u8>, now: &mut LogRow) {
        state.bytes(inner);
        now.visit_counts(state);
    }
}

impl Environment for LoggedEnvironment {
    fn spec(&self) -> &EnvironmentSpec {
        self.environment.spec()
    }

    fn reset(&mut self, observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        let step = self.environment.reset(observation)?;
        self.track(step);
        Ok(step)
    }

    fn step(&mut self, action: Action<'_>, observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        let step = self.environment.step(action, observation)?;
        self.track(step);
        Ok(step)
    }

    fn demonstrate(&self, action: ViewMut<'_>) -> Result<bool, EnvError> {
        self.environment.demonstrate(action)
    }

    fn save(&mut self) -> Option<Vec<u8>> {
        let (mut inner, mut bytes) = (self.environment.save()?, Vec::new());
        Self::visit(&mut State::writer(&mut bytes), &mut inner, &mut self.now);
        Some(bytes)
    }

    /// Returns to an earlier state of this environment, from which a search has stepped it.
    fn restore(&mut self, bytes: &[u8]) -> Result<(), EnvError> {
        let (mut inner, mut now) = (Vec::new(), LogRow::default());
        let mut state = State::reader(bytes);
        Self::visit(&mut state, &mut inner, &mut now);
        state.finish()?;
        self.environment.restore(&inner)?;
        self.rows.truncate(usize::try_from(now.episode).unwrap_or(usize::MAX));
        self.now = now;
        Ok(())
    }
}

impl Drop for LoggedEnvironment {
    /// Stores the log only at the end, because a search steps the environment from its current state and then restores
    /// that state.
    fn drop(&mut self) {
        if let Some(number) = self.number.filter(|_| !self.rows.is_empty()) {
            self.kept.lock().logs.insert(number, (self.id, std::mem::take(&mut self.rows)));
        }
    }
}

#[cfg(test)]
mod tests {
    use relive_env::bsuite::read_csv;
    use relive_env::{Buffer, bsuite::Logged};

    use super::*;

    /// Plays in an environment with a fixed action.
    fn play(environment: &mut dyn Environment, steps: usize, action: i64) -> f64 {
        let mut observation = Buffer::for_nest(&environment.spec().observations, 1).unwrap();
        let step = |_| environment.step(Action::Discrete(action), observation.view_mut()).unwrap().reward;
        (0..steps).map(step).sum()
    }

    fn keeper(environment: &str) -> (LogKeeper, RunOptions) {
        let run = RunOptions { environment: environment.to_owned(), seed: 3, ..RunOptions::default() };
        (LogKeeper::new(&run), run)
    }

    #[test]
    fn the_logs_of_all_training_environments_are_merged() {
        let (kept, run) = keeper("catch/0");
        let id: BsuiteId = "catch/0".parse().unwrap();
        let mut made: Vec<_> =
            (0..3).map(|number| kept.watch(id, run.environment_seed(number)).unwrap()).collect();
        // A reset and nine actions, twelve times.
        let returns: f64 = made.iter_mut().map(|environment| play(environment, 120, 1)).sum();
        let mut evaluator = kept.watch(id, 12_345).unwrap();
        play(&mut evaluator, 120, 0);
        drop((made, evaluator));
        let rows = read_csv(&kept.csv().unwrap().1).unwrap();
        let episodes: Vec<u64> = rows.iter().map(|row| row.episode).collect();
        assert_eq!(episodes, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 17, 20, 25, 30]);
        assert_eq!(rows[2].steps, 27, "three environments have taken nine steps");
        assert_eq!((rows[0].steps, rows[3].steps), (27, 54), "all are stepped together");
        let last = rows.last().unwrap();
        assert_eq!((last.steps, last.episode_len), (270, 9));
        assert!(last.total_return.abs() <= 30.0 && returns.abs() <= 36.0);
        assert_eq!(last.total("total_regret"), Some(30.0 - last.total_return));
    }

    #[test]
    fn the_log_of_one_environment_is_that_of_bsuite() {
        let (kept, run) = keeper("cartpole/0");
        let (id, seed): (BsuiteId, _) = ("cartpole/0".parse().unwrap(), run.environment_seed(0));
        let mut environment = kept.watch(id, seed).unwrap();
        play(&mut environment, 50, 0);
        let saved = environment.save().unwrap();
        play(&mut environment, 100, 2);
        environment.restore(&saved).unwrap();
        play(&mut environment, 50, 0);
        drop(environment);
        let mut expected = Logged::new(id.load(u32::try_from(seed).unwrap()).unwrap());
        play(&mut expected, 100, 0);
        assert_eq!(kept.csv().unwrap().1, bsuite::write_csv(expected.rows()));
    }
}
