//! The checkpoint settings of Python's `Server`.

use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use relive_engine::EngineError;
use relive_host::{Format, Rules};

/// The checkpoint settings from Python.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Checkpoints {
    /// The folder or bucket, or a single checkpoint in it.
    path: String,
    /// dm-reverb's name for a feature that no checkpointer supports.
    group: String,
    /// A checkpoint, or a folder of checkpoints, to load if `path` has none.
    fallback_checkpoint_path: Option<String>,
    format: String,
    keep: usize,
    every_s: Option<f64>,
    at_shutdown: bool,
    /// Which rules the tables use: `code` or `checkpoint`.
    config: String,
    salvage: bool,
}

impl Checkpoints {
    pub(crate) fn settings(self) -> PyResult<relive_host::Checkpoints> {
        let format: Format = self.format.parse().map_err(PyValueError::new_err)?;
        let rules = if self.config == "code" { Rules::Given } else { Rules::Stored };
        let mut settings = relive_host::Checkpoints::at(self.path)
            .format(format)
            .keep(self.keep)
            .at_shutdown(self.at_shutdown)
            .rules(rules)
            .salvage(self.salvage)
            // Several programs may read a folder of dm-reverb's checkpoints, but only one may write to it.
            .shared_until_written(format == Format::Reverb);
        if let Some(place) = self.fallback_checkpoint_path {
            settings = settings.fallback(place);
        }
        if let Some(seconds) = self.every_s {
            settings = settings.every(Duration::from_secs_f64(seconds));
        }
        if !self.group.is_empty() {
            let group = self.group;
            let reason =
                format!("checkpoints do not support groups, but the checkpointer got the group {group:?}");
            settings =
                settings.saved_by(move |_, _| Err(EngineError::CheckpointRefused { reason: reason.clone() }));
        }
        Ok(settings)
    }
}
