//! The processes of learners other than learner 0.

use std::sync::Arc;
use std::time::{Duration, Instant};

use relive_client::blocking::Client;

use crate::identity::{Comparison, Identity};
use crate::plan::{Agent, Crew, CrewParts, MakeAgent, MakeNamed, Role, next_progress, policies_of};
use crate::remote::{Layouts, Team};
use crate::seeds::{EnvironmentUser, environment_seed};
use crate::stop::Stop;
use crate::tables::item::is_loss;
use crate::tables::learners::Joining;
use crate::{Result, RlError, Weights};

/// How long to wait, after the server has closed, for the reason why the run ended.
const NEWS: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A learner other than learner 0.
#[derive(Debug)]
pub struct Follower<'a> {
    /// The client for the run's tables.
    pub client: &'a Client,
    /// The learner's rank in the run, counted from 1.
    pub rank: u32,
    /// Stops the learner early; the run then fails.
    pub stop: &'a Stop,
}

/// The outcome of a learner other than learner 0.
#[derive(Debug)]
pub struct Followed {
    /// The number of gradient steps in which the learner took part.
    pub steps: u64,
    /// The learned weights, identical on all learners.
    pub weights: Option<Weights>,
}

/// Learns together with learner 0 of the run on a server until the run ends. The run determines the agent,
/// its settings and the environment.
///
/// # Errors
/// The server has no run with several learners, or no free place for this learner; the agent or the environment cannot
/// be created here, or differs from the run's; or another learner is lost. Also returns the first error of learning,
/// which also ends the run.
pub fn learn(
    follower: &Follower<'_>,
    agents: &MakeAgent<'_>,
    environments: &MakeNamed<'_>,
) -> Result<Followed> {
    let Follower { client, rank, stop } = *follower;
    let (of, joining) = Joining::get(client)?;
    let agent = agents(&of.agent, &of.settings_json())?;
    let make = environments(&of.environment)?;
    agent.validate()?;
    let spec = make.spec(environment_seed(&of.environment, of.seed, EnvironmentUser::Actor(0)))?;
    let own = Identity::new((agent.name(), agent.settings()), &of.environment, &spec, of.seed);
    of.expect(
        &own,
        Comparison {
            place: "the run's table `learners`",
            saved: "the run",
            asked: "this learner",
            advice: "use the same version of all programs on all machines",
        },
    )?;
    let layouts = Layouts::of(&agent, &spec, of.seed)?;
    let team = Arc::new(Team::join(&joining, rank, &of, layouts, stop)?);
    let workers = usize::try_from(joining.workers).unwrap_or(usize::MAX);
    let role = Role::Follower { of: workers };
    let crew = Crew::new(CrewParts {
        env_steps: joining.env_steps,
        team: Some(Arc::clone(&team)),
        ..CrewParts::new(&of, role, policies_of(&agent), &make, spec, client)
    });
    match followed(agent.as_ref(), &crew, &team, stop) {
        Err(error) if is_over(&error) => {
            Ok(Followed { steps: team.steps(), weights: crew.weights().newest() })
        }
        Err(error) => {
            team.fail(&error.to_string());
            Err(error)
        }
        // Only learner 0 can end the run.
        Ok(()) if stop.is_stopped() => Err(RlError::Stopped),
        Ok(()) => {
            Err(RlError::Order { call: "another learner", needs: "a plan that does not end on its own" })
        }
    }
}

/// Pulls from the plan until it ends or fails.
fn followed(agent: &dyn Agent, crew: &Crew, team: &Team, stop: &Stop) -> Result<()> {
    let mut plan = agent.plan(crew)?;
    loop {
        match next_progress(&mut plan, stop, || team.check()) {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(()),
            Err(error) if is_loss(&error) => {
                // The tables close when the run is over or has failed.
                let until = Instant::now() + NEWS;
                while Instant::now() < until {
                    team.check()?;
                    std::thread::sleep(LOOK_EVERY);
                }
                return Err(error);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Returns whether the run ended normally.
fn is_over(error: &RlError) -> bool {
    matches!(error.cause(), RlError::Learners(error) if error.is_over())
}
