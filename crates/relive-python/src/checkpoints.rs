//! Where a server's checkpoints are, and the engine that begins with the newest one.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use relive_checkpoint::{Error, ErrorKind, Format, LoadOptions, Loaded, Location, Root, Tier, locate};
use relive_client::ErrorKind as Kind;
use relive_engine::{BuildError, Engine, EngineBuilder, EngineError, Rules};
use relive_tensor::ColdStore;

use crate::error::{invalid, raise_kind};

/// What Python says about checkpoints.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Checkpoints {
    /// The folder or bucket, or one checkpoint in it.
    path: String,
    /// dm-reverb's name for what no checkpointer supports.
    group: String,
    /// One checkpoint, or a folder of them, for when the folder has none.
    fallback_checkpoint_path: Option<String>,
    format: String,
    keep: usize,
    every_s: Option<f64>,
    at_shutdown: bool,
    /// Whose rules the tables have: `code` or `checkpoint`.
    config: String,
    salvage: bool,
}

/// An engine, and where it writes its checkpoints.
pub(crate) struct Begun {
    pub(crate) engine: Engine,
    pub(crate) root: Arc<Root>,
}

/// A disk tier, and the bytes that chunks may take in memory.
pub(crate) struct Spill {
    pub(crate) tier: Arc<Tier>,
    pub(crate) budget_bytes: u64,
}

impl Spill {
    fn below(&self, builder: EngineBuilder) -> EngineBuilder {
        builder.cold_store(Arc::clone(&self.tier) as Arc<dyn ColdStore>)
    }
}

/// The engine of a server that nobody told where to keep checkpoints: in a folder that is made with the first one.
pub(crate) fn begin_without(mut builder: EngineBuilder, spill: Option<Spill>) -> PyResult<Begun> {
    let mut root = Root::new(temporary_folder().to_string_lossy());
    if let Some(spill) = spill {
        builder = spill.below(builder);
        root = root.tier(spill.tier);
    }
    let root = Arc::new(root);
    let engine = write_to(builder, &root).build().map_err(invalid)?;
    Ok(Begun { engine, root })
}

impl Checkpoints {
    /// The engine, with the state of the newest checkpoint if there is one.
    pub(crate) fn begin(
        self,
        py: Python<'_>,
        mut builder: EngineBuilder,
        spill: Option<Spill>,
    ) -> PyResult<Begun> {
        let format: Format = self.format.parse().map_err(PyValueError::new_err)?;
        let (root, checkpoint) = match locate(&self.path) {
            Ok(Location::Checkpoint { root, .. }) => (root, Some(&self.path)),
            Ok(Location::Root(root)) => (root, None),
            // What is not there will be made; what cannot be one is told when it is written to.
            Err(_) => (self.path.clone(), None),
        };
        let mut root = Root::new(root).format(format).keep(self.keep);
        if let Some(fallback) = &self.fallback_checkpoint_path {
            root = root.fallback(fallback);
        }
        let mut options = LoadOptions::new().salvage(self.salvage);
        if let Some(spill) = spill {
            builder = spill.below(builder);
            root = root.tier(Arc::clone(&spill.tier));
            options = options.tier(spill.tier, spill.budget_bytes);
        }
        let loaded = py.detach(|| {
            // dm-reverb's folders may be read by many, and programs do; whoever writes there is alone.
            if format == Format::Relive {
                root.lock()?;
            }
            match checkpoint {
                Some(checkpoint) => root.load(checkpoint, &options).map(Some),
                None => root.load_latest(&options),
            }
        });
        let loaded = loaded.map_err(|error| self.raise(py, &root, &error))?;
        let root = Arc::new(root);
        let builder = self.scheduled(builder, &root);
        let engine = match loaded {
            Some(loaded) => self.restore(py, builder, loaded)?,
            None => builder.build().map_err(invalid)?,
        };
        Ok(Begun { engine, root })
    }

    fn scheduled(&self, builder: EngineBuilder, root: &Arc<Root>) -> EngineBuilder {
        let builder = match self.group.as_str() {
            "" => write_to(builder, root),
            group => {
                let reason =
                    format!("checkpoints have no groups, but the checkpointer was given the group {group:?}");
                builder
                    .checkpointer(move |_, _| Err(EngineError::CheckpointRefused { reason: reason.clone() }))
            }
        };
        let builder = builder.checkpoint_at_close(self.at_shutdown);
        match self.every_s {
            Some(seconds) => builder.checkpoint_every(Duration::from_secs_f64(seconds)),
            None => builder,
        }
    }

    fn restore(&self, py: Python<'_>, builder: EngineBuilder, loaded: Loaded) -> PyResult<Engine> {
        let (rules, whose) = match self.config.as_str() {
            "code" => (Rules::Given, "configuration"),
            _ => (Rules::Stored, "checkpoint"),
        };
        for line in relive_checkpoint::summary_of_losses(&loaded.losses) {
            tracing::warn!(target: "relive", "lost: {line}");
        }
        let builder = builder.loaded_from(loaded.location);
        let restored = py.detach(|| builder.build_from(loaded.snapshot, rules));
        let restored = restored.map_err(|error| raise_build(py, &error))?;
        for difference in &restored.differences {
            tracing::warn!(target: "relive", "restored: {difference}; the {whose} counts");
        }
        Ok(restored.engine)
    }

    fn raise(&self, py: Python<'_>, root: &Root, error: &Error) -> PyErr {
        let advice =
            if error.kind() == ErrorKind::Damaged { self.advice(root, error) } else { String::new() };
        raise_text(py, error.kind(), format!("{error}{advice}"))
    }

    /// What to do about damage.
    fn advice(&self, root: &Root, damage: &Error) -> String {
        let salvage = match self.salvage {
            true => "; nothing of it can be salvaged",
            false => "; salvage=True loads what is whole",
        };
        if locate(&self.path).is_ok_and(|location| matches!(location, Location::Checkpoint { .. })) {
            return salvage.to_owned();
        }
        let older = root
            .older(damage)
            .advice(root.location(), self.salvage, |older| format!("{older:?} as the path"));
        format!("{salvage}; {older}")
    }
}

/// The exception of an error that needs no advice.
pub(crate) fn raise(py: Python<'_>, error: &Error) -> PyErr {
    raise_text(py, error.kind(), error.to_string())
}

fn raise_text(py: Python<'_>, kind: ErrorKind, text: String) -> PyErr {
    match kind {
        ErrorKind::Damaged => raise_kind(py, Kind::DataLoss, text),
        ErrorKind::Location => PyValueError::new_err(text),
        ErrorKind::InUse => raise_kind(py, Kind::FailedPrecondition, text),
        _ => raise_kind(py, Kind::Internal, text),
    }
}

fn write_to(builder: EngineBuilder, root: &Arc<Root>) -> EngineBuilder {
    let root = Arc::clone(root);
    builder.checkpointer(move |snapshot, progress| {
        root.save(snapshot, progress).map_err(EngineError::checkpoint)
    })
}

/// A folder that nothing else has: named after this process and the time.
fn temporary_folder() -> PathBuf {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    std::env::temp_dir().join(format!("relive-checkpoints-{}-{}", std::process::id(), now.as_nanos()))
}

fn raise_build(py: Python<'_>, error: &BuildError) -> PyErr {
    match error {
        BuildError::Restore(_) => raise_kind(py, Kind::FailedPrecondition, error.to_string()),
        _ => PyValueError::new_err(error.to_string()),
    }
}
