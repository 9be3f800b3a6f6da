//! bsuite's log of the training environment.

use std::sync::{Arc, Mutex, OnceLock};

use relive_env::bsuite::{self, BsuiteEnvironment, BsuiteId, LogRow, Logged};
use relive_env::{Action, EnvError, Environment, EnvironmentSpec, TimeStep, ViewMut};

type Log = (BsuiteId, Vec<LogRow>);

/// Holds the log of the training environment. This environment has the seed of the first environment created, which
/// only provides the spec. The environments for evaluations and demonstrations have different seeds.
#[derive(Debug, Clone, Default)]
pub(super) struct LogKeeper {
    seed: Arc<OnceLock<u64>>,
    log: Arc<Mutex<Option<Log>>>,
}

impl LogKeeper {
    /// Returns an environment that may be the training environment.
    pub(super) fn watch(&self, id: BsuiteId, seed: u64) -> Result<LoggedEnvironment, EnvError> {
        let is_kept = *self.seed.get_or_init(|| seed) == seed;
        let environment = Logged::new(id.load(u32::try_from(seed).unwrap_or(u32::MAX))?);
        Ok(LoggedEnvironment { id, environment, kept: self.clone(), is_kept })
    }

    /// Returns the file's name and contents.
    pub(super) fn csv(&self) -> Option<(String, String)> {
        let log = self.log.lock().ok()?;
        log.as_ref().map(|(id, rows)| (id.csv_file_name(), bsuite::write_csv(rows)))
    }
}

/// A bsuite environment whose log outlives it.
pub(super) struct LoggedEnvironment {
    id: BsuiteId,
    environment: Logged<Box<dyn BsuiteEnvironment>>,
    kept: LogKeeper,
    is_kept: bool,
}

impl Environment for LoggedEnvironment {
    fn spec(&self) -> &EnvironmentSpec {
        self.environment.spec()
    }

    fn reset(&mut self, observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        self.environment.reset(observation)
    }

    fn step(&mut self, action: Action<'_>, observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        self.environment.step(action, observation)
    }

    fn demonstrate(&self, action: ViewMut<'_>) -> Result<bool, EnvError> {
        self.environment.demonstrate(action)
    }

    fn save(&mut self) -> Option<Vec<u8>> {
        self.environment.save()
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), EnvError> {
        self.environment.restore(state)
    }
}

impl Drop for LoggedEnvironment {
    /// Stores the log only at the end, because a search steps the environment from its current state and then restores
    /// that state.
    fn drop(&mut self) {
        if self.is_kept
            && !self.environment.rows().is_empty()
            && let Ok(mut log) = self.kept.log.lock()
        {
            *log = Some((self.id, self.environment.rows().to_vec()));
        }
    }
}
