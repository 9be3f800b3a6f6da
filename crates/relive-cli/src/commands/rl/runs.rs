//! The folder of a run: its description, its results, and its logs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use relive_rl::Agent;
use relive_rl::logging::{CsvLogger, JsonLinesLogger, Loggers, TensorBoardLogger, TerminalLogger};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::figures::Figures;
use crate::failure::{Failure, Kind, Result};

/// The file that describes a run.
pub(super) const ABOUT: &str = "run.json";

/// The interval between lines on stderr.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// The formats of a run's logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    /// actor.csv, evaluator.csv, learner.csv
    Csv,
    /// The same as JSON lines, which `relive rl plot` reads
    Jsonl,
    /// An event file for TensorBoard
    Tensorboard,
    /// Occasional lines on stderr
    Terminal,
}

/// The description of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct About {
    pub(super) agent: String,
    pub(super) environment: String,
    pub(super) seed: u64,
    pub(super) actors: usize,
    /// The agent's settings by name. Earlier runs have none.
    #[serde(default)]
    pub(super) settings: BTreeMap<String, Value>,
}

impl About {
    /// Returns the settings of an agent, whose values are JSON.
    pub(super) fn settings_of(agent: &dyn Agent) -> BTreeMap<String, Value> {
        let value = |text: String| serde_json::from_str(&text).unwrap_or(Value::String(text));
        agent.settings().into_iter().map(|(name, text)| (name, value(text))).collect()
    }

    /// Returns whether `other` describes the same run. Whether a run may be resumed with other settings is decided by
    /// its checkpoints.
    fn is_of_same_run(&self, other: &About) -> bool {
        let About { agent, environment, seed, actors, settings: _ } = self;
        (agent, environment, seed, actors) == (&other.agent, &other.environment, &other.seed, &other.actors)
    }
}

/// A description with results.
#[derive(Serialize)]
struct FinishedRun<'a> {
    #[serde(flatten)]
    about: &'a About,
    #[serde(flatten)]
    figures: &'a Figures,
}

/// Checks that the folder has no logs, or only logs of the same run, which is resumed and appends to them.
pub(super) fn expect_room(folder: &Path, (about, may_go_on): (&About, bool), option: &str) -> Result {
    let path = folder.join(ABOUT);
    let Ok(text) = std::fs::read_to_string(&path) else { return Ok(()) };
    if may_go_on && serde_json::from_str::<About>(&text).is_ok_and(|there| about.is_of_same_run(&there)) {
        return Ok(());
    }
    let advice = "give another folder, or remove this one";
    Err(Failure::usage(format!("{option}: {} already has a run; {advice}", folder.display())))
}

/// Creates the folder, with the description of the run.
pub(super) fn begin(folder: &Path, about: &About, formats: &[LogFormat]) -> Result<Loggers> {
    std::fs::create_dir_all(folder).map_err(|error| Failure::at(folder, error))?;
    write(&folder.join(ABOUT), about)?;
    let mut loggers = Loggers::new();
    for format in formats {
        match format {
            LogFormat::Csv => loggers.add(CsvLogger::new(folder)?),
            LogFormat::Jsonl => loggers.add(JsonLinesLogger::new(folder)?),
            LogFormat::Tensorboard => loggers.add(TensorBoardLogger::new(folder)?),
            LogFormat::Terminal => loggers.add(TerminalLogger::new(std::io::stderr(), LINE_EVERY)),
        }
    }
    Ok(loggers)
}

/// Adds the results of the run.
pub(super) fn end(folder: &Path, about: &About, figures: &Figures) -> Result {
    write(&folder.join(ABOUT), &FinishedRun { about, figures })
}

/// Returns the results of a run, or `None` if it has not finished.
pub(super) fn ended(folder: &Path) -> Result<Option<Figures>> {
    let text = std::fs::read_to_string(folder.join(ABOUT)).map_err(|error| Failure::at(folder, error))?;
    // A run that is in progress or was killed has only a description.
    Ok(serde_json::from_str(&text).ok())
}

pub(super) fn write(path: &Path, value: &impl Serialize) -> Result {
    let text = serde_json::to_string_pretty(value).map_err(|error| Failure::text(Kind::Runtime, error))?;
    std::fs::write(path, text + "\n").map_err(|error| Failure::at(path, error))
}

/// Returns all runs in these folders, and in their direct subfolders.
pub(super) fn find(folders: &[PathBuf]) -> Result<Vec<(PathBuf, About)>> {
    let mut found = Vec::new();
    for folder in folders {
        let inside = std::fs::read_dir(folder)
            .map_err(|error| Failure::usage(format!("{}: {error}", folder.display())))?;
        let mut candidates: Vec<PathBuf> = inside.filter_map(|entry| Some(entry.ok()?.path())).collect();
        candidates.sort();
        candidates.insert(0, folder.clone());
        let runs = candidates.into_iter().filter(|candidate| candidate.join(ABOUT).is_file());
        for run in runs {
            let path = run.join(ABOUT);
            let text = std::fs::read_to_string(&path).map_err(|error| Failure::at(&path, error))?;
            let about = serde_json::from_str(&text).map_err(|error| Failure::at(&path, error))?;
            found.push((run, about));
        }
    }
    if found.is_empty() {
        return Err(Failure::usage("there are no runs; `relive rl train --log-dir DIR` creates one"));
    }
    Ok(found)
}
