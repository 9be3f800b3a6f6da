//! From a command to what does it.

use super::options::{Command, Options};
use super::{add, drop, pause, set};
use crate::failure::Result;

/// Runs the command.
pub(crate) async fn run(options: Options) -> Result {
    match options.command {
        Command::Set(options) => set::run(options).await,
        Command::Pause(options) => pause::run(options, true).await,
        Command::Resume(options) => pause::run(options, false).await,
        Command::Add(options) => add::run(options).await,
        Command::Drop(options) => drop::run(options).await,
    }
}
