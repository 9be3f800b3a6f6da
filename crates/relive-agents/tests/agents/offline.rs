//! Runs that learn from the contents of tables without acting.

use std::sync::Arc;

use relive_client::blocking::Client;
use relive_engine::Engine;
use relive_env::{Action, Buffer, Environment};
use relive_flow::Flow;
use relive_rl::adders::{Adder, TransitionAdder};
use relive_rl::plan::{Crew, Learn, Progress, SampleBatch};
use relive_rl::run::{Evaluation, Report, RunOptions, Watch};
use relive_rl::{Agent, Learner, Learnt, Policy, PolicyContext, Result, Saveable, Weights};
use relive_table::{RateLimiterConfig, TableConfig};

use crate::common::{options, run, small_dqn};

/// A learner that records mixtures of two tables.
struct RecordingLearner {
    weights: Weights,
    batches: u64,
}

impl Learner for RecordingLearner {
    type Batch = Vec<SampleBatch>;

    fn learn(&mut self, batches: Vec<SampleBatch>) -> Result<Learnt> {
        let sizes: Vec<usize> = batches.iter().map(SampleBatch::len).collect();
        assert_eq!(sizes, [12, 4]);
        self.batches += 1;
        Ok(Learnt { steps: 1, samples: 16, ..Learnt::default() })
    }

    fn weights(&self) -> Result<Weights> {
        Ok(Weights::new(self.batches, self.weights.parts()))
    }
}

impl Saveable for RecordingLearner {
    fn save(&mut self) -> Vec<u8> {
        self.batches.to_le_bytes().to_vec()
    }

    fn restore(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }
}

/// An offline agent that is evaluated with DQN's policy.
struct OfflineAgent;

impl Agent for OfflineAgent {
    fn name(&self) -> &'static str {
        "offline"
    }

    fn settings(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn validate(&self) -> Result<()> {
        Ok(())
    }

    fn tables(&self) -> Result<Vec<TableConfig>> {
        let limiter = RateLimiterConfig::min_size(1).unwrap();
        Ok(["replay", "demonstrations"].map(|name| TableConfig::new(name).rate_limiter(limiter)).to_vec())
    }

    fn policy(&self, context: &PolicyContext<'_>) -> Result<Box<dyn Policy>> {
        small_dqn().policy(context)
    }

    fn plan(&self, crew: &Crew) -> Result<Flow<Progress>> {
        let trained: Arc<dyn Agent> = Arc::new(small_dqn());
        let weights = run(&trained, &options("catch/0", 9, 1))?.0.weights;
        let learner = crew.learner(RecordingLearner { weights, batches: 0 })?;
        Ok(crew.replay_mixture(&[("replay", 12), ("demonstrations", 4)])?.learn(learner))
    }
}

/// Writes an episode into both tables.
fn fill(engine: &Engine) {
    let client = Client::in_process(engine.clone()).unwrap();
    let mut environment = relive_env::make("catch/0", 1).unwrap();
    let spec = environment.spec().clone();
    let mut observation = Buffer::for_nest(&spec.observations, 1).unwrap();
    let action = Buffer::for_nest(&spec.actions, 1).unwrap();
    let adder = |table| TransitionAdder::new(&client, table, &spec, 1, 0.99).unwrap();
    let mut adders = ["replay", "demonstrations"].map(adder);
    environment.reset(observation.view_mut()).unwrap();
    adders.iter_mut().for_each(|adder| adder.add_first(observation.view()).unwrap());
    loop {
        let step = environment.step(Action::Nest(action.view()), observation.view_mut()).unwrap();
        adders.iter_mut().for_each(|adder| adder.add(action.view(), step, observation.view()).unwrap());
        if step.last() {
            break;
        }
    }
}

#[test]
fn a_mixture_of_demonstrations_and_experience_is_learned_from() {
    let agent: Arc<dyn Agent> = Arc::new(OfflineAgent);
    for actors in [0, 2] {
        let options = RunOptions {
            actors,
            learner_steps: Some(30),
            evaluation: Some(Evaluation { every: 10, episodes: 1 }),
            watch: Some(Watch::new(fill)),
            ..options("catch/0", 0, 1)
        };
        let (trained, reports) = run(&agent, &options).unwrap();
        assert_eq!((trained.summary.env_steps, trained.summary.learner_steps), (0, 30));
        let shown = reports.iter().filter(|report| matches!(report, Report::Evaluator(_))).count();
        assert_eq!(shown, 3, "after every ten steps of the learner");
        assert!(trained.graph.text.contains("replay(demonstrations)"), "{}", trained.graph.text);
    }
}
