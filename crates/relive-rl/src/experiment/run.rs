//! From settings to a run.

use relive_client::blocking::Client;
use relive_engine::Engine;
use relive_env::EnvironmentSpec;
use relive_nn::Key;
use relive_table::TableConfig;

use super::options::{MakeEnvironment, RunOptions};
use super::summary::{EpisodeReport, Summary};
use super::{local, threads};
use crate::Result;
use crate::adders::TransitionAdder;
use crate::dqn::{DqnActor, DqnConfig, DqnLearner, QNetwork};
use crate::variables::Variables;

/// Trains an agent, and calls `on_episode` after every episode.
///
/// Without actors of their own, one thread acts and learns in turn: one learner step for every `batch_size / samples_per_insert` steps in the
/// environment. Otherwise each actor is a thread, and the table's rate limiter keeps the learner in step with them.
///
/// # Errors
/// Settings out of range, an environment that the agent cannot act in, or the first error of an actor or the learner.
pub fn train(
    config: &DqnConfig,
    options: &RunOptions,
    make_environment: &MakeEnvironment<'_>,
    on_episode: &mut dyn FnMut(&EpisodeReport),
) -> Result<Summary> {
    config.validate()?;
    match options.actors {
        0 => local::run(config, options, make_environment, on_episode),
        _ => threads::run(config, options, make_environment, on_episode),
    }
}

/// What the parts of a run are made of.
pub(super) struct Parts<'a> {
    pub(super) config: &'a DqnConfig,
    pub(super) key: Key,
    pub(super) spec: EnvironmentSpec,
    pub(super) network: QNetwork,
    pub(super) engine: Engine,
    pub(super) client: Client,
}

impl<'a> Parts<'a> {
    pub(super) fn new(
        config: &'a DqnConfig,
        options: &RunOptions,
        spec: &EnvironmentSpec,
        table: TableConfig,
    ) -> Result<Parts<'a>> {
        let key = Key::from_seed(options.seed);
        let engine = Engine::builder().table(table).seed(key.child("replay").stream().bits()).build()?;
        let client = Client::in_process(engine.clone())?;
        let network = QNetwork::new(spec, config)?;
        Ok(Parts { config, key, spec: spec.clone(), network, engine, client })
    }

    pub(super) fn learner(&self, prefetch: usize) -> Result<DqnLearner> {
        let params = self.network.init(self.key.child("network"));
        DqnLearner::new(self.config, self.network.clone(), &self.spec, self.client.clone(), params, prefetch)
    }

    pub(super) fn actor(&self, number: usize, variables: &Variables) -> Result<DqnActor> {
        let DqnConfig { n_step, discount, epsilon, .. } = *self.config;
        let adder = TransitionAdder::new(&self.client, crate::dqn::TABLE, &self.spec, n_step, discount)?;
        let stream = self.key.child("actor").nth(number as u64).stream();
        let (network, variables) = (self.network.clone(), variables.clone());
        Ok(DqnActor::new(network, variables, epsilon, stream, Some(Box::new(adder))))
    }
}

/// The seed of an actor's environment; bsuite's have 32 bits.
pub(super) fn environment_seed(options: &RunOptions, actor: usize) -> u64 {
    if actor == 0 {
        return options.seed;
    }
    let key = Key::from_seed(options.seed).child("environment").nth(actor as u64);
    key.stream().bits() & u64::from(u32::MAX)
}
