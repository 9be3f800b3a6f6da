//! A custom agent: tabular Q-learning (Watkins 1989) with a replay table. `cargo run --release -p relive-agents
//! --example q_learning`

use std::sync::Arc;

use relive_agents::EpsilonGreedy;
use relive_flow::{Flow, Order, Weight};
use relive_rl::adders::TransitionAdder;
use relive_rl::plan::{Crew, Learn, MakeEnvironment, Progress, ReplayTable, SampleBatch, Transitions};
use relive_rl::run::{RunOptions, train};
use relive_rl::{
    ActStep, Agent, Features, Learner, Learnt, Policy, PolicyContext, Result, RlError, Saveable, Weights,
};
use relive_table::TableConfig;
use relive_tensor::Tensor;

/// One row for each hash of 16 bits: far more rows than states, so that two states rarely share one.
const ROWS: usize = 1 << 16;

struct QLearning {
    step_size: f32,
}

/// A value for each action in each state; each distinct observation is a state.
#[derive(Clone)]
struct Values {
    actions: usize,
    numbers: Vec<f32>,
}

impl Values {
    fn new(actions: usize) -> Values {
        Values { actions, numbers: vec![0.0; ROWS * actions] }
    }

    fn place(&self, observation: &[f32]) -> std::ops::Range<usize> {
        let mix = |hash: u64, x: &f32| (hash ^ u64::from(x.to_bits())).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let begin = (observation.iter().fold(1, mix) >> 48) as usize * self.actions;
        begin..begin + self.actions
    }
}

struct Greedy {
    features: Features,
    choice: EpsilonGreedy,
    values: Values,
    rows: Vec<f32>,
}

impl Policy for Greedy {
    fn act(&mut self, step: &mut ActStep<'_>) -> Result<()> {
        self.features.write_rows(step.observations, &mut self.rows);
        let rows = self.rows.chunks_exact(self.features.width());
        let values = rows.flat_map(|row| &self.values.numbers[self.values.place(row)]).copied();
        self.choice.act(&values.collect::<Vec<f32>>(), step.actions)
    }

    fn load(&mut self, weights: &Weights) -> Result<()> {
        let refused = |error: &dyn std::fmt::Display| RlError::state("a table of values", error);
        let table = weights.part("values").ok_or_else(|| refused(&"there is none"))?;
        self.values.numbers = table.to_vec().map_err(|error| refused(&error))?;
        Ok(())
    }
}

impl Saveable for Greedy {
    fn save(&mut self) -> Vec<u8> {
        self.choice.save()
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        self.choice.restore(state)
    }
}

struct TableLearner {
    values: Values,
    batch: Transitions,
    step_size: f32,
    width: usize,
    steps: u64,
}

impl Learner for TableLearner {
    type Batch = SampleBatch;

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "numbers of actions")]
    fn learn(&mut self, batch: SampleBatch) -> Result<Learnt> {
        self.batch.read(&[batch])?;
        let observations = self.batch.observations.chunks_exact(self.width);
        let next = self.batch.next_observations.chunks_exact(self.width);
        for (index, (observation, next)) in observations.zip(next).enumerate() {
            let best = self.values.numbers[self.values.place(next)].iter().copied().fold(f32::MIN, f32::max);
            let value = self.values.place(observation).start + self.batch.actions[index] as usize;
            let target = self.batch.rewards[index] + self.batch.discounts[index] * best;
            self.values.numbers[value] += self.step_size * (target - self.values.numbers[value]);
        }
        self.steps += 1;
        Ok(Learnt { steps: 1, samples: self.batch.keys.len() as u64, ..Learnt::default() })
    }

    fn weights(&self) -> Result<Weights> {
        let (rows, actions) = (u32::try_from(ROWS), u32::try_from(self.values.actions));
        let shape = [rows.unwrap_or(u32::MAX), actions.unwrap_or(u32::MAX)];
        let table = Tensor::from_slice(&self.values.numbers, shape);
        let table = table.map_err(|error| RlError::state("a table of values", error))?;
        Ok(Weights::new(self.steps, [("values".to_owned(), table)]))
    }
}

impl Saveable for TableLearner {
    fn save(&mut self) -> Vec<u8> {
        let numbers = self.values.numbers.iter().flat_map(|number| number.to_le_bytes());
        self.steps.to_le_bytes().into_iter().chain(numbers).collect()
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let refused = || RlError::state("a table of values", format_args!("{} bytes", state.len()));
        let (steps, numbers) = state.split_first_chunk().ok_or_else(refused)?;
        self.steps = u64::from_le_bytes(*steps);
        self.values.numbers = numbers.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        Ok(())
    }
}

impl Agent for QLearning {
    fn name(&self) -> &'static str {
        "q-learning"
    }

    fn settings(&self) -> Vec<(String, String)> {
        vec![("step_size".to_owned(), self.step_size.to_string())]
    }

    fn validate(&self) -> Result<()> {
        let is_share = self.step_size > 0.0 && self.step_size <= 1.0;
        if is_share { Ok(()) } else { Err(RlError::setting("step_size", self.step_size, "from 0 to 1")) }
    }

    fn tables(&self) -> Result<Vec<TableConfig>> {
        let (samples_per_insert, max_size) = (32.0, 100_000);
        let rules = ReplayTable {
            name: "replay",
            batch_size: 32,
            samples_per_insert,
            min_size: 100,
            max_size,
            burst: 1,
        };
        Ok(vec![rules.config()?])
    }

    fn policy(&self, context: &PolicyContext<'_>) -> Result<Box<dyn Policy>> {
        let choice = EpsilonGreedy::new(0.05, context)?;
        let values = Values::new(choice.num_actions());
        Ok(Box::new(Greedy {
            features: Features::of_observations(&context.spec.observations)?,
            choice,
            values,
            rows: Vec::new(),
        }))
    }

    fn plan(&self, crew: &Crew) -> Result<Flow<Progress>> {
        let spec = crew.spec().clone();
        let actions = usize::try_from(spec.num_actions().unwrap_or(1)).unwrap_or(1);
        let learner = crew.learner(TableLearner {
            values: Values::new(actions),
            batch: Transitions::new(&spec, 0.99)?,
            step_size: self.step_size,
            width: Features::of_observations(&spec.observations)?.width(),
            steps: 0,
        })?;
        let adder = move |client: &_| TransitionAdder::new(client, "replay", &spec, 1, 0.99);
        let acting = crew.store(crew.rollouts(1)?, adder).acting()?;
        let learning = crew.replay("replay", 32)?.learn(learner);
        Ok(Flow::union([learning, acting], Order::weighted([Weight::All, Weight::UpTo(1)])))
    }
}

fn main() -> Result<()> {
    let agent: Arc<dyn Agent> = Arc::new(QLearning { step_size: 0.2 });
    let make = MakeEnvironment::new(|seed| Ok(relive_env::make("catch/0", seed)?));
    for actors in [0, 2] {
        let options = RunOptions { env_steps: 9_000, seed: 1, actors, ..RunOptions::default() };
        let summary = train(&agent, &options, &make, &mut |_| {})?.summary;
        assert!(summary.mean_return_last_100 >= 0.7, "{actors} actors: {summary:?}");
    }
    Ok(())
}

#[test]
fn catch_is_learned_in_one_thread_and_in_several() {
    main().unwrap();
}
