//! Showing what was learned.

use super::options::Evaluation;
use super::parts::Episodes;
use crate::{Actor, Episode, Result};

/// Plays episodes without exploring, and without writing what it sees.
pub(super) struct Evaluator {
    episodes: Episodes,
    number: u64,
}

impl Evaluator {
    pub(super) fn new(options: Evaluation, episodes: Episodes) -> Evaluator {
        Evaluator { episodes, number: options.episodes }
    }

    /// Plays with the newest parameters.
    pub(super) fn run(&mut self, mut told: impl FnMut(&Episode)) -> Result<()> {
        self.episodes.actor_mut().update(true)?;
        for _ in 0..self.number {
            told(&self.episodes.run_episode(|_| Ok(()))?);
        }
        Ok(())
    }

    pub(super) fn episodes_mut(&mut self) -> &mut Episodes {
        &mut self.episodes
    }
}
