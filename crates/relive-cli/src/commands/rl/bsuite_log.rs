//! bsuite's log of the environment that is trained in.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use relive_env::bsuite::{self, BsuiteEnvironment, BsuiteId, LogRow, Logged};
use relive_env::{Action, EnvError, Environment, EnvironmentSpec, TimeStep, ViewMut};

type Log = (BsuiteId, Vec<LogRow>);

/// Where the log of the first environment that was played in is kept.
#[derive(Debug, Clone, Default)]
pub(super) struct Kept {
    is_taken: Arc<AtomicBool>,
    log: Arc<Mutex<Option<Log>>>,
}

impl Kept {
    /// An environment that may be the one that is played in first.
    pub(super) fn watch(&self, id: BsuiteId, seed: u64) -> Result<Watched, EnvError> {
        let seed = u32::try_from(seed).unwrap_or(u32::MAX);
        let environment = Logged::new(id.load(seed)?);
        Ok(Watched { id, environment, kept: self.clone(), is_kept: false })
    }

    /// The file's name, and what is to be in it.
    pub(super) fn csv(&self) -> Option<(String, String)> {
        let log = self.log.lock().ok()?;
        log.as_ref().map(|(id, rows)| (id.csv_file_name(), bsuite::write_csv(rows)))
    }
}

/// An environment of bsuite whose log is kept beyond its life.
pub(super) struct Watched {
    id: BsuiteId,
    environment: Logged<Box<dyn BsuiteEnvironment>>,
    kept: Kept,
    is_kept: bool,
}

impl Environment for Watched {
    fn spec(&self) -> &EnvironmentSpec {
        self.environment.spec()
    }

    fn reset(&mut self, observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        self.is_kept |= !self.kept.is_taken.swap(true, Ordering::Relaxed);
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

impl Drop for Watched {
    /// Keeps the log as it is in the end: a search goes on from where the environment is, and back.
    fn drop(&mut self) {
        if self.is_kept
            && let Ok(mut log) = self.kept.log.lock()
        {
            *log = Some((self.id, self.environment.rows().to_vec()));
        }
    }
}
