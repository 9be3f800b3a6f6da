//! Choices with a name each, on the command line and in configurations.

use clap::ValueEnum;
use relive_checkpoint::Format;
use relive_engine::Rules;
use serde::Deserialize;

/// The format in which checkpoints are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FormatChoice {
    /// Relive's own: chunks are written once and shared by successive checkpoints
    #[default]
    Relive,
    /// dm-reverb's: each checkpoint is a folder with everything in it
    Reverb,
}

impl From<FormatChoice> for Format {
    fn from(choice: FormatChoice) -> Self {
        match choice {
            FormatChoice::Relive => Self::Relive,
            FormatChoice::Reverb => Self::Reverb,
        }
    }
}

/// Whose rules restored tables have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ConfigFrom {
    /// Those of the configuration
    Code,
    /// Those of the checkpoint
    #[default]
    Checkpoint,
}

impl From<ConfigFrom> for Rules {
    fn from(choice: ConfigFrom) -> Self {
        match choice {
            ConfigFrom::Code => Self::Given,
            ConfigFrom::Checkpoint => Self::Stored,
        }
    }
}
