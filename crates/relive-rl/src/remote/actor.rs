//! Those who act.

use std::sync::Arc;

use relive_client::blocking::Client;
use relive_env::Environment;

use super::episodes;
use super::variables::RemoteVariables;
use super::watch::{Missed, watched};
use crate::experiment::identity::Identity;
use crate::experiment::parts::{Who, actor_key, environment_seed, learner_key};
use crate::experiment::{MakeEnvironment, Stop};
use crate::variables::VariableSource;
use crate::{Actor, Agent, EnvironmentLoop, Episode, Place, Purpose, Result, RlError};

/// Who acts, and where.
pub struct RemoteActor<'a> {
    /// The agent.
    pub agent: &'a dyn Agent,
    /// The way to the server.
    pub client: &'a Client,
    /// The environment's name, which must be the learner's.
    pub environment: &'a str,
    /// The run's seed.
    pub seed: u64,
    /// Ends it early.
    pub stop: &'a Stop,
}

/// Plays and writes what it sees, until the learner says that there is enough. `number` tells it from other actors of the run.
///
/// Where the table's limiter holds the actor back, and no learner goes on, it waits for as long as that lasts, and says so in the log.
///
/// # Errors
/// The server is lost, the learner's run is of something else, or the environment is not one that the agent can act in.
pub fn act(
    actor: &RemoteActor<'_>,
    number: usize,
    make_environment: &MakeEnvironment<'_>,
    told: &mut dyn FnMut(&Episode),
) -> Result<()> {
    watched(actor.client, Missed::Learner, || actor.act(number, make_environment, told))
}

/// Plays without exploring and without writing what it sees, with the newest parameters at each time, until the learner has ended; then
/// `last` more episodes, which show what was learned.
///
/// # Errors
/// As [`act`].
pub fn evaluate(
    actor: &RemoteActor<'_>,
    last: u64,
    make_environment: &MakeEnvironment<'_>,
    told: &mut dyn FnMut(&Episode, bool),
) -> Result<()> {
    watched(actor.client, Missed::Learner, || actor.evaluate(last, make_environment, told))
}

type Episodes = EnvironmentLoop<Box<dyn Environment>, Box<dyn Actor>>;

impl RemoteActor<'_> {
    fn act(
        &self,
        number: usize,
        make_environment: &MakeEnvironment<'_>,
        told: &mut dyn FnMut(&Episode),
    ) -> Result<()> {
        let (mut episodes, variables) = self.begin(Who::Actor(number), make_environment)?;
        loop {
            let played = episodes.run_episode(|of| {
                self.stop.check()?;
                if variables.is_over()? {
                    return Err(RlError::Stopped);
                }
                of.update(false)
            });
            match played {
                Err(RlError::Stopped) => return Ok(()),
                played => {
                    let episode = played?;
                    episodes::put(self.client, Some(number), &episode)?;
                    told(&episode);
                }
            }
        }
    }

    fn evaluate(
        &self,
        last: u64,
        make_environment: &MakeEnvironment<'_>,
        told: &mut dyn FnMut(&Episode, bool),
    ) -> Result<()> {
        let (mut episodes, variables) = self.begin(Who::Evaluator, make_environment)?;
        loop {
            let is_over = variables.is_over()?;
            for _ in 0..if is_over { last } else { 1 } {
                episodes.actor_mut().update(true)?;
                let episode = match episodes.run_episode(|_| self.stop.check()) {
                    Err(RlError::Stopped) => return Ok(()),
                    played => played?,
                };
                episodes::put(self.client, None, &episode)?;
                told(&episode, is_over);
            }
            if is_over {
                return Ok(());
            }
        }
    }

    fn begin(
        &self,
        who: Who,
        make_environment: &MakeEnvironment<'_>,
    ) -> Result<(Episodes, Arc<RemoteVariables>)> {
        let RemoteActor { agent, client, environment: name, seed, stop } = *self;
        agent.validate()?;
        let environment = make_environment(environment_seed(name, seed, who))?;
        let spec = environment.spec().clone();
        let like = agent.init(&spec, learner_key(seed))?;
        let asked = Identity::new((agent.name(), agent.settings()), name, &spec, seed);
        let variables = Arc::new(RemoteVariables::connect(client, asked, like, stop)?);
        let purpose = match who {
            Who::Actor(_) => Purpose::Training,
            Who::Evaluator => Purpose::Evaluation,
        };
        let place = Place { spec: &spec, client, key: actor_key(seed, who) };
        let source: Arc<dyn VariableSource> = Arc::clone(&variables) as Arc<dyn VariableSource>;
        let acting = agent.actor(&place, purpose, source)?;
        Ok((EnvironmentLoop::new(environment, acting)?.named(name), variables))
    }
}
