//! The files that a run leaves behind.

use std::path::{Path, PathBuf};

use clap::Args;
use relive_rl::logging::Loggers;

use super::figures::Figures;
use super::runs::{self, About, LogFormat};
use crate::failure::Result;

/// Where the results and logs of a run are written.
#[derive(Debug, Clone, Args)]
pub(super) struct Records {
    /// File for the final figures (JSON)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Folder for the run's logs, which `relive rl plot` reads
    #[arg(long, value_name = "DIR")]
    log_dir: Option<PathBuf>,
    /// Formats of these logs
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["jsonl"])]
    logs: Vec<LogFormat>,
}

impl Records {
    /// Returns the folder of the run, if requested.
    pub(super) fn folder(&self) -> Option<&Path> {
        self.log_dir.as_deref()
    }

    /// Returns the file for the final figures.
    pub(super) fn json(&self) -> Option<&Path> {
        self.json.as_deref()
    }

    /// Returns whether there are logs to draw curves from.
    pub(super) fn has_json_lines(&self) -> bool {
        self.logs.contains(&LogFormat::Jsonl)
    }

    /// Returns whether the folder's run has finished.
    pub(super) fn is_ended(&self) -> Result<bool> {
        match &self.log_dir {
            Some(folder) if folder.join(runs::ABOUT).is_file() => Ok(runs::ended(folder)?.is_some()),
            _ => Ok(false),
        }
    }

    /// Records the description of the run; the loggers record its reports.
    ///
    /// `may_go_on` states whether the folder may contain an earlier part of the same run.
    pub(super) fn begin(&self, about: &About, may_go_on: bool) -> Result<Loggers> {
        match &self.log_dir {
            Some(folder) => {
                runs::expect_room(folder, (about, may_go_on), "--log-dir")?;
                runs::begin(folder, about, &self.logs).map_err(|failure| failure.of("--log-dir"))
            }
            None => Ok(Loggers::new()),
        }
    }

    /// Records the results of the run.
    pub(super) fn end(&self, about: &About, figures: &Figures) -> Result {
        if let Some(path) = &self.json {
            figures.write(path, "--json")?;
        }
        // Last, because the folder's disk may be full.
        match &self.log_dir {
            Some(folder) => runs::end(folder, about, figures),
            None => Ok(()),
        }
    }
}
