//! The recorded episodes that a run learns from.

use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use relive_env::EnvironmentSpec;

use super::digest::digest;
use super::{RecordedEpisode, saved};
use crate::Result;
use crate::identity::DataDigest;

/// The recorded episodes that a run learns from. They are kept in memory only until the run's plan has written them to
/// its table.
pub(crate) struct RunData {
    path: PathBuf,
    loaded: Mutex<Option<Vec<RecordedEpisode>>>,
}

impl RunData {
    /// Loads the episodes, which identify the run. Returns them with their digest.
    ///
    /// # Errors
    /// The errors of [`load`](super::load).
    pub(crate) fn load(path: &Path, spec: &EnvironmentSpec) -> Result<(RunData, DataDigest)> {
        let episodes = saved::load(path, spec)?;
        let digest = digest(&episodes);
        Ok((RunData { loaded: Mutex::new(Some(episodes)), ..RunData::stored(path) }, digest))
    }

    /// Refers to the episodes of a run whose table contains them already.
    pub(crate) fn stored(path: &Path) -> RunData {
        RunData { path: path.to_owned(), loaded: Mutex::default() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the loaded episodes if they come from this path and have not been taken yet.
    pub(crate) fn take(&self, path: &Path) -> Option<Vec<RecordedEpisode>> {
        if path == self.path { self.loaded.lock().take() } else { None }
    }

    /// Frees the episodes, which a resumed run has in its table already.
    pub(crate) fn free(&self) {
        self.loaded.lock().take();
    }
}
