//! The parts of a run, and what they are made of.

use std::sync::Arc;

use relive_client::blocking::Client;
use relive_engine::{Engine, Rules};
use relive_env::bsuite::BsuiteId;
use relive_env::{Environment, EnvironmentSpec};
use relive_nn::Key;
use relive_table::{RateLimiterConfig, Snapshot, TableConfig};

use super::identity::Identity;
use super::options::{MakeEnvironment, RunOptions};
use super::saved;
use crate::variables::{VariableSource, Variables};
use crate::{Actor, Agent, EnvironmentLoop, Learner, Place, Purpose, Result};

/// An actor and its environment.
pub(super) type Episodes = EnvironmentLoop<Box<dyn Environment>, Box<dyn Actor>>;

/// Who acts, and so with which numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Who {
    /// The actor of a number.
    Actor(usize),
    /// The evaluator.
    Evaluator,
}

/// What the parts of a run are made of.
pub(super) struct Parts<'a> {
    pub(super) agent: &'a dyn Agent,
    pub(super) seed: u64,
    pub(super) environment: String,
    pub(super) identity: Identity,
    pub(super) spec: EnvironmentSpec,
    pub(super) engine: Engine,
    pub(super) client: Client,
    /// Checkpoints before this.
    pub(super) checkpoints: u64,
}

impl<'a> Parts<'a> {
    /// With the agent's tables, which hold actors and learner back if they are `paced`, and what a snapshot has for them.
    pub(super) fn new(
        agent: &'a dyn Agent,
        options: &RunOptions,
        make_environment: &MakeEnvironment<'_>,
        paced: bool,
        snapshot: Option<Snapshot>,
    ) -> Result<Parts<'a>> {
        let spec = make_environment(environment_seed(&options.environment, options.seed, Who::Actor(0)))?
            .spec()
            .clone();
        let checkpoints = snapshot.as_ref().map_or(0, saved::number);
        let key = Key::from_seed(options.seed).child("replay").nth(checkpoints);
        let mut builder = Engine::builder().seed(key.stream().bits()).table(saved::table());
        for table in agent.tables()? {
            builder = builder.table(if paced { table } else { unpaced(table)? });
        }
        let engine = match snapshot {
            Some(snapshot) => builder.build_from(snapshot, Rules::Given)?.engine,
            None => builder.build()?,
        };
        if let Some(watch) = &options.watch {
            watch.show(&engine);
        }
        let client = Client::in_process(engine.clone())?;
        let environment = options.environment.clone();
        let identity = Identity::new((agent.name(), agent.settings()), &environment, &spec, options.seed);
        Ok(Parts { agent, seed: options.seed, environment, identity, spec, engine, client, checkpoints })
    }

    pub(super) fn learner(&self, prefetch: usize) -> Result<Box<dyn Learner>> {
        self.agent.learner(&self.place(learner_key(self.seed)), prefetch)
    }

    /// Somebody who acts, in an environment of its own.
    pub(super) fn episodes(
        &self,
        who: Who,
        make_environment: &MakeEnvironment<'_>,
        variables: &Variables,
    ) -> Result<Episodes> {
        let environment = make_environment(environment_seed(&self.environment, self.seed, who))?;
        let purpose = match who {
            Who::Actor(_) => Purpose::Training,
            Who::Evaluator => Purpose::Evaluation,
        };
        // Whoever is not saved with a checkpoint does not repeat what it did before.
        let key = actor_key(self.seed, who).nth(self.checkpoints);
        let variables: Arc<dyn VariableSource> = Arc::new(variables.clone());
        let acting = self.agent.actor(&self.place(key), purpose, variables)?;
        Ok(EnvironmentLoop::new(environment, acting)?.named(&self.environment))
    }

    /// Items that were ever inserted into the agent's tables.
    pub(super) fn inserts(&self) -> u64 {
        let tables = self.engine.tables();
        let own = tables.iter().filter(|table| table.name() != saved::TABLE);
        own.map(|table| u64::try_from(table.info().inserts).unwrap_or(0)).sum()
    }

    fn place(&self, key: Key) -> Place<'_> {
        Place { spec: &self.spec, client: &self.client, key }
    }
}

pub(crate) fn learner_key(seed: u64) -> Key {
    Key::from_seed(seed).child("network")
}

pub(crate) fn actor_key(seed: u64, who: Who) -> Key {
    let key = Key::from_seed(seed);
    match who {
        Who::Actor(number) => key.child("actor").nth(number as u64),
        Who::Evaluator => key.child("evaluator"),
    }
}

/// The seed of somebody's environment; bsuite's have 32 bits.
///
/// Identifiers of bsuite that differ in nothing but their number, `catch/0` and `catch/1`, stand for runs of their own.
pub(crate) fn environment_seed(environment: &str, seed: u64, who: Who) -> u64 {
    let key = match environment.parse::<BsuiteId>().map_or(0, BsuiteId::index) {
        0 if matches!(who, Who::Actor(0)) => return seed,
        0 => Key::from_seed(seed),
        number => Key::from_seed(seed).child("number in bsuite").nth(number.into()),
    };
    let key = match who {
        Who::Actor(number) => key.child("environment").nth(number as u64),
        Who::Evaluator => key.child("environment of the evaluator"),
    };
    key.stream().bits() & u64::from(u32::MAX)
}

/// Whoever paces itself must not be held back.
fn unpaced(table: TableConfig) -> Result<TableConfig> {
    let limiter = RateLimiterConfig::min_size(1)
        .map_err(|error| crate::RlError::setting("a rate limiter", error, "one that can be"))?;
    Ok(table.rate_limiter(limiter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_and_every_number_of_bsuite_has_a_seed_of_its_own() {
        let mut seeds = Vec::new();
        for name in ["catch/0", "catch/1", "catch/7"] {
            for who in [Who::Actor(0), Who::Actor(1), Who::Evaluator] {
                seeds.push(environment_seed(name, 5, who));
            }
        }
        assert!(seeds.iter().all(|&seed| u32::try_from(seed).is_ok()));
        assert_eq!((seeds[0], environment_seed("CartPole-v1", 5, Who::Actor(0))), (5, 5));
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 9);
    }
}
