//! An agent of your own: tabular Q-learning (Watkins 1989). What is here is all that is its own; acting, replay, pacing, threads, evaluation
//! and checkpoints are the toolkit's. `cargo run --release -p relive-rl --example q_learning`

use relive_env::EnvironmentSpec;
use relive_nn::losses::BatchLoss;
use relive_nn::{Init, Key, Layout, Params};
use relive_rl::Result;
use relive_rl::experiment::{RunOptions, train};
use relive_rl::values::{ActionValues, Experience, Transitions, ValueAgent, ValueLearning, ValueSpace};

const ROWS: usize = 1 << 16; // One for each hash of 16 bits: far more than there are states, so that two seldom share one.

struct QLearning {
    step_size: f32,
}

/// A value for each action in each state, which any observation is. The numbers are in the parameters.
struct Table {
    actions: usize,
    width: usize,
    step_size: f32,
}

impl Table {
    fn place(&self, observation: &[f32]) -> std::ops::Range<usize> {
        let mix = |hash: u64, x: &f32| (hash ^ u64::from(x.to_bits())).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let begin = (observation.iter().fold(1, mix) >> 48) as usize * self.actions;
        begin..begin + self.actions
    }
}

impl ActionValues for Table {
    fn values<'a>(&'a mut self, params: &'a Params, row: &[f32]) -> &'a [f32] {
        &params.values()[self.place(row)]
    }
}

impl ValueLearning for Table {
    fn improve(&mut self, params: &mut Params, batch: &mut Transitions) -> BatchLoss {
        let observations = batch.observations.chunks_exact(self.width);
        let next = batch.next_observations.chunks_exact(self.width);
        let mut errors = Vec::new();
        for (index, (observation, next)) in observations.zip(next).enumerate() {
            let best = params.values()[self.place(next)].iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let value = self.place(observation).start + batch.actions[index];
            let error = batch.rewards[index] + batch.discounts[index] * best - params.values()[value];
            params.values_mut()[value] += self.step_size * error;
            errors.push(error);
        }
        params.touch();
        BatchLoss { loss: errors.iter().map(|error| error * error).sum(), rows: errors }
    }
}

impl ValueAgent for QLearning {
    fn name(&self) -> &'static str {
        "q-learning"
    }

    fn experience(&self) -> Experience {
        Experience { batch_size: 32, n_step: 1, ..Experience::default() }
    }

    fn init(&self, spec: &EnvironmentSpec, key: Key) -> Result<Params> {
        let mut layout = Layout::new();
        layout.add("table", &[ROWS, self.table(spec)?.actions], Init::Constant(0.0));
        Ok(layout.init(key))
    }

    fn values(&self, spec: &EnvironmentSpec) -> Result<Box<dyn ActionValues>> {
        Ok(Box::new(self.table(spec)?))
    }

    fn learning(&self, spec: &EnvironmentSpec, _params: &Params) -> Result<Box<dyn ValueLearning>> {
        Ok(Box::new(self.table(spec)?))
    }
}

impl QLearning {
    fn table(&self, spec: &EnvironmentSpec) -> Result<Table> {
        let ValueSpace { features, num_actions } = ValueSpace::of(spec)?;
        Ok(Table { actions: num_actions, width: features.width(), step_size: self.step_size })
    }
}

fn main() -> Result<()> {
    for actors in [0, 2] {
        let options = RunOptions { env_steps: 9_000, seed: 1, actors, ..RunOptions::default() };
        let make = |seed| Ok(relive_env::make("catch/0", seed)?);
        let summary = train(&QLearning { step_size: 0.2 }, &options, &make, &mut |_| {})?.summary;
        assert!(summary.mean_return_last_100 >= 0.7, "{actors} actors: {summary:?}");
    }
    Ok(())
}

#[test]
fn catch_is_learned_in_one_thread_and_in_several() {
    main().unwrap();
}
