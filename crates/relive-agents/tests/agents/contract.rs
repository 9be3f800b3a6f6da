//! Tests of properties that only some agents have, in addition to the suite for all agents.

use std::sync::Arc;

use relive_agents::{A2cConfig, A3cConfig, ImpalaConfig, PpoConfig, SacConfig};
use relive_flow::Flow;
use relive_rl::plan::{Crew, Progress};
use relive_rl::run::{Checkpoints, RunOptions};
use relive_rl::{Agent, Policy, PolicyContext, Result};

use crate::common::{all, numbers, on_policy, options, run, small_ppo, small_sac};

/// The number of steps of a short run.
const STEPS: u64 = 400;

#[test]
fn any_number_of_workers_gives_the_same_results() {
    for (agent, environments) in on_policy() {
        for environment in environments {
            let of = |actors| {
                let options = RunOptions { actors, ..options(environment, STEPS, 3) };
                numbers(&run(&agent, &options).unwrap().0)
            };
            let alone = of(0);
            for actors in [1, 2, 3, 8] {
                assert!(of(actors) == alone, "{} in {environment} with {actors} actors", agent.name());
            }
        }
    }
}

#[test]
fn a3c_with_one_worker_is_a2c() {
    let (a2c, a3c): (Arc<dyn Agent>, Arc<dyn Agent>) =
        (Arc::new(A2cConfig::default()), Arc::new(A3cConfig::default()));
    let of = |agent, environment, actors| {
        numbers(&run(agent, &RunOptions { actors, ..options(environment, STEPS, 3) }).unwrap().0)
    };
    for environment in ["CartPole-v1", "Pendulum-v1"] {
        assert!(of(&a3c, environment, 0) == of(&a2c, environment, 0), "{environment}");
    }
    assert!(run(&a3c, &RunOptions { actors: 3, ..options("CartPole-v1", STEPS, 3) }).is_ok());
}

#[test]
fn one_thread_never_waits_for_itself() {
    let narrow = SacConfig { min_replay_size: 1, n_step: 40, samples_per_insert: 64.0, ..small_sac() };
    let wide = SacConfig { batch_size: 64, samples_per_insert: 0.5, ..narrow.clone() };
    for sac in [narrow, wide] {
        let (ratio, agent): (f64, Arc<dyn Agent>) = (sac.samples_per_insert, Arc::new(sac));
        let summary = run(&agent, &options("Pendulum-v1", 1_000, 1)).unwrap().0.summary;
        assert!((summary.samples_per_insert / ratio - 1.0).abs() < 0.2, "{summary:?}");
    }
}

#[test]
fn samples_that_an_early_stop_leaves_out_are_not_counted() {
    let ppo = PpoConfig { epochs: 10, target_kl: Some(1e-9), minibatch_size: 1_000, ..small_ppo() };
    let cells = (ppo.num_envs * ppo.num_steps) as u64;
    let agent: Arc<dyn Agent> = Arc::new(ppo);
    let summary = run(&agent, &options("CartPole-v1", STEPS, 1)).unwrap().0.summary;
    // The first step of a rollout does not change the policy that it is compared with.
    assert!((1.5..2.1).contains(&summary.samples_per_insert), "{summary:?}");
    // The second minibatch ends the rollout before its own step.
    assert!(summary.learner_steps * cells < 3 * summary.env_steps / 2, "{summary:?}");
}

#[test]
fn more_workers_than_environments_are_refused() {
    for (agent, environments) in on_policy() {
        let many = RunOptions { actors: 9, ..options(environments[0], STEPS, 1) };
        let error = run(&agent, &many).unwrap_err().to_string();
        assert_eq!(error, "actors is 9, but it must be at most the number of environments of the agent");
    }
}

/// An agent with rollouts that have no steps.
struct StepsNothing(Arc<dyn Agent>);

impl Agent for StepsNothing {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn settings(&self) -> Vec<(String, String)> {
        self.0.settings()
    }

    fn validate(&self) -> Result<()> {
        self.0.validate()
    }

    fn policy(&self, context: &PolicyContext<'_>) -> Result<Box<dyn Policy>> {
        self.0.policy(context)
    }

    fn plan(&self, crew: &Crew) -> Result<Flow<Progress>> {
        crew.rollouts(0).and_then(|_| self.0.plan(crew))
    }
}

#[test]
fn rollouts_of_no_steps_are_refused() {
    let (agent, environments) = on_policy().remove(0);
    let still: Arc<dyn Agent> = Arc::new(StepsNothing(agent));
    let error = run(&still, &options(environments[0], STEPS, 1)).unwrap_err().to_string();
    assert_eq!(error, "the number of steps of a rollout is 0, but it must be at least 1");
}

#[test]
fn a_run_with_different_settings_is_not_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoints = Some(Checkpoints { folder: folder.path().to_owned(), every: 100 });
    let agents = all();
    let (first, second) = (&agents[0].0, &agents[1].0);
    let of = |agent, seed| {
        run(agent, &RunOptions { checkpoints: checkpoints.clone(), ..options("CartPole-v1", 200, seed) })
    };
    of(first, 1).unwrap();
    let error = of(second, 1).unwrap_err().to_string();
    assert!(error.contains("agent: the checkpoint has ppo, this run has a2c"), "{error}");
    let error = of(first, 2).unwrap_err().to_string();
    assert!(error.contains("seed: the checkpoint has 1, this run has 2"), "{error}");
}

#[test]
fn a_run_too_short_for_a_batch_or_its_workers_is_refused() {
    let impala = |batch_size| -> Arc<dyn Agent> {
        let small =
            ImpalaConfig { sequence_length: 10, num_envs: 4, hidden: vec![8], ..ImpalaConfig::default() };
        Arc::new(ImpalaConfig { batch_size, ..small })
    };
    let steps = |batch_size, actors, env_steps| {
        let options = RunOptions { actors, ..options("catch/0", env_steps, 1) };
        run(&impala(batch_size), &options).map(|(trained, _)| trained.summary.env_steps)
    };
    assert!(steps(8, 0, 80).unwrap() < 2 * 80, "the batch that reaches the number");
    let error = steps(9, 0, 80).unwrap_err().to_string();
    let expected = "the number of steps of a batch is 120, but it must be at most the steps of the run, 80: a batch has 12 fragments (batch_size 9)";
    assert!(error.starts_with(expected), "{error}");
    assert!(steps(1, 8, 80).is_ok());
    let error = steps(1, 9, 80).unwrap_err().to_string();
    assert!(
        error.starts_with("actors is 9, but it must be fewer: one fragment of each is 90 steps"),
        "{error}"
    );
}
