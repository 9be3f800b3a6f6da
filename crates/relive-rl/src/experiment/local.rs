//! One thread that acts and learns in turn.

use super::options::{MakeEnvironment, RunOptions};
use super::pacing::Pacing;
use super::run::{Parts, environment_seed};
use super::summary::{EpisodeReport, Summary, Tally};
use crate::dqn::DqnConfig;
use crate::{Actor, EnvironmentLoop, Learner, Result};

pub(super) fn run(
    config: &DqnConfig,
    options: &RunOptions,
    make_environment: &MakeEnvironment<'_>,
    on_episode: &mut dyn FnMut(&EpisodeReport),
) -> Result<Summary> {
    let environment = make_environment(environment_seed(options, 0))?;
    let spec = environment.spec().clone();
    let parts = Parts::new(config, options, &spec, config.unpaced_table())?;
    let mut learner = parts.learner(0)?;
    let actor = parts.actor(0, learner.variables())?;
    let mut episodes = EnvironmentLoop::new(environment, actor)?;
    let (mut pacing, mut tally) = (Pacing::new(config), Tally::new());
    while tally.env_steps() < options.env_steps {
        let episode = episodes.run_episode(|actor| {
            let due = pacing.observed();
            for _ in 0..due {
                learner.step()?;
            }
            if due > 0 { actor.update(true) } else { Ok(()) }
        })?;
        on_episode(&tally.note(0, &episode, learner.steps()));
    }
    let learned_from = tally.env_steps().saturating_sub(config.steps_before_learning());
    Ok(tally.summary(learner.steps(), config.batch_size, learned_from))
}
