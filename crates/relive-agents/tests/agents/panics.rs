//! A panic in a run ends the run for all of its threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use relive_agents::R2d2Config;
use relive_env::{Action, EnvError, Environment, EnvironmentSpec, TimeStep, ViewMut};
use relive_flow::Flow;
use relive_rl::plan::{Crew, Learn, MakeEnvironment, Progress};
use relive_rl::run::{RunOptions, train};
use relive_rl::{Agent, Learner, Learnt, Policy, PolicyContext, Result, Rollout, Saveable, Weights};

use crate::common::{all, options, run, run_in, small_ppo, small_r2d2};

/// Far more time than a run that ends at once needs.
const DEADLINE: Duration = Duration::from_secs(60);

/// Returns the result of `run`, which must end within the deadline.
fn in_time<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = channel();
    std::thread::spawn(move || sender.send(run()));
    receiver.recv_timeout(DEADLINE).expect("the run ends")
}

/// Returns options for a run with far more steps than it can complete.
fn endless(environment: &str, actors: usize) -> RunOptions {
    RunOptions { actors, ..options(environment, u64::MAX, 1) }
}

/// An environment that panics at its third step.
struct PanickingEnvironment {
    environment: Box<dyn Environment>,
    steps: u64,
}

impl Environment for PanickingEnvironment {
    fn spec(&self) -> &EnvironmentSpec {
        self.environment.spec()
    }

    fn reset(&mut self, observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        self.environment.reset(observation)
    }

    fn step(&mut self, action: Action<'_>, observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        self.steps += 1;
        assert!(self.steps < 3, "step 3 of a test's environment");
        self.environment.step(action, observation)
    }

    fn save(&mut self) -> Option<Vec<u8>> {
        self.environment.save()
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), EnvError> {
        self.environment.restore(state)
    }
}

#[test]
fn a_panicking_environment_ends_the_run() {
    for (agent, environments) in all() {
        let name = environments[0];
        for actors in [0, 2] {
            let make = MakeEnvironment::new(move |seed| {
                let environment = relive_env::make(name, seed)?;
                Ok(Box::new(PanickingEnvironment { environment, steps: 0 }))
            });
            let (agent, options) = (Arc::clone(&agent), endless(name, actors));
            let error = in_time(move || run_in(&agent, &options, &make)).unwrap_err().to_string();
            assert!(error.contains("step 3 of a test's environment"), "{error}");
            assert!(error.contains("shard "), "{error}");
        }
    }
}

/// PPO with a learner that panics at its first rollout.
struct PanickingPpo;

/// A learner with the weights of a short run, which panics when it should learn.
struct PanickingLearner(Weights);

impl Learner for PanickingLearner {
    type Batch = Rollout;

    fn learn(&mut self, _: Rollout) -> Result<Learnt> {
        panic!("the first step of a test's learner")
    }

    fn weights(&self) -> Result<Weights> {
        Ok(self.0.clone())
    }
}

impl Saveable for PanickingLearner {
    fn save(&mut self) -> Vec<u8> {
        Vec::new()
    }

    fn restore(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }
}

impl Agent for PanickingPpo {
    fn name(&self) -> &'static str {
        "clumsy"
    }

    fn settings(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn validate(&self) -> Result<()> {
        Ok(())
    }

    fn environments(&self, _: usize) -> usize {
        8
    }

    fn policy(&self, context: &PolicyContext<'_>) -> Result<Box<dyn Policy>> {
        small_ppo().policy(context)
    }

    fn plan(&self, crew: &Crew) -> Result<Flow<Progress>> {
        let trained: Arc<dyn Agent> = Arc::new(small_ppo());
        let (trained, _) = run(&trained, &options("CartPole-v1", 128, 1))?;
        Ok(crew.rollouts(16)?.sync()?.learn(crew.learner(PanickingLearner(trained.weights))?))
    }
}

#[test]
fn a_panicking_learner_ends_the_run() {
    for actors in [0, 2] {
        let agent: Arc<dyn Agent> = Arc::new(PanickingPpo);
        let error = in_time(move || run(&agent, &endless("CartPole-v1", actors))).unwrap_err().to_string();
        assert!(error.contains("the first step of a test's learner"), "{error}");
    }
}

#[test]
fn a_panicking_listener_ends_the_run() {
    for (agent, environments) in all() {
        let name = environments[0];
        let listening = move || {
            let make = MakeEnvironment::new(move |seed| Ok(relive_env::make(name, seed)?));
            train(&agent, &endless(name, 2), &make, &mut |_| panic!("a test's listener"))
        };
        let ended = in_time(move || catch_unwind(AssertUnwindSafe(listening)).map(drop));
        assert_eq!(ended.unwrap_err().downcast_ref(), Some(&"a test's listener"));
    }
}

#[test]
fn sequences_that_end_within_the_burn_in_are_not_learned() {
    // The second sequence of an episode of ten steps has three rows.
    let agent = R2d2Config {
        batch_size: 1,
        burn_in_length: 4,
        trace_length: 2,
        replay_period: 7,
        min_replay_size: 1,
        ..small_r2d2()
    };
    let agent: Arc<dyn Agent> = Arc::new(agent);
    let trained = run(&agent, &options("catch/0", 400, 1)).unwrap().0;
    assert!(trained.summary.learner_steps > 50, "{:?}", trained.summary);
}
