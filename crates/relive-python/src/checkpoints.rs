//! Where a server's checkpoints are, and the engine that begins with the newest one.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::SystemTime;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use relive_checkpoint::reverb::Store;
use relive_checkpoint::{Error, ErrorKind};
use relive_client::ErrorKind as Kind;
use relive_engine::{BuildError, Engine, EngineBuilder, EngineError, Rules};
use relive_table::{CheckpointProgress, Snapshot};

use crate::error::{invalid, raise_kind};

/// What Python says about checkpoints.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Checkpoints {
    /// The folder; none for a temporary one, made with the first checkpoint.
    path: Option<PathBuf>,
    /// dm-reverb's name for what no checkpointer supports.
    group: String,
    /// One checkpoint, for when the folder has none.
    fallback: Option<PathBuf>,
    /// Whether the rules of the tables are the code's, not the checkpoint's.
    rules_from_code: bool,
}

impl Checkpoints {
    /// The engine, with the state of the newest checkpoint if there is one.
    pub(crate) fn build(self, py: Python<'_>, builder: EngineBuilder) -> PyResult<Engine> {
        let Some(root) = self.path else {
            let folder = OnceLock::new();
            let save = move |snapshot: Snapshot, progress: &CheckpointProgress| {
                let folder: &PathBuf = folder.get_or_init(temporary_folder);
                Store::new(folder).checkpoint(&snapshot, progress).map_err(EngineError::checkpoint)
            };
            return builder.checkpointer(save).build().map_err(invalid);
        };
        let store = Store::new(root);
        let store = match self.fallback {
            Some(fallback) => store.fallback(fallback),
            None => store,
        };
        let loaded = py.detach(|| store.load_latest()).map_err(|error| raise(py, &error))?;
        let group = self.group;
        let builder = builder.checkpointer(move |snapshot, progress| {
            if !group.is_empty() {
                let reason =
                    format!("checkpoints have no groups, but the checkpointer was given the group {group:?}");
                return Err(EngineError::CheckpointRefused { reason });
            }
            store.checkpoint(&snapshot, progress).map_err(EngineError::checkpoint)
        });
        let Some(snapshot) = loaded else { return builder.build().map_err(invalid) };
        let rules = if self.rules_from_code { Rules::Given } else { Rules::Stored };
        let restored = builder.build_from(snapshot, rules).map_err(|error| raise_build(py, &error))?;
        for difference in &restored.differences {
            tracing::warn!(target: "relive", "restored: {difference}; the {} counts", if self.rules_from_code { "configuration" } else { "checkpoint" });
        }
        Ok(restored.engine)
    }
}

/// A folder that nothing else has: named after this process and the time.
fn temporary_folder() -> PathBuf {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    std::env::temp_dir().join(format!("relive-checkpoints-{}-{}", std::process::id(), now.as_nanos()))
}

fn raise(py: Python<'_>, error: &Error) -> PyErr {
    let kind = match error.kind() {
        ErrorKind::Damaged => Kind::DataLoss,
        _ => Kind::Internal,
    };
    raise_kind(py, kind, error.to_string())
}

fn raise_build(py: Python<'_>, error: &BuildError) -> PyErr {
    match error {
        BuildError::Restore(_) => raise_kind(py, Kind::FailedPrecondition, error.to_string()),
        _ => PyValueError::new_err(error.to_string()),
    }
}
