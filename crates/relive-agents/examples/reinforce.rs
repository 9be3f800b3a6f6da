//! A custom agent as a plan: REINFORCE (Williams 1992). This file only contains the algorithm; the toolkit provides
//! environments, threads, evaluation, checkpoints and logs. `cargo run --release -p relive-agents --example reinforce`

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::print_stdout,
    reason = "an example, whose numbers are small and whose result is to be read"
)]

use std::sync::Arc;

use relive_agents::{Streams, weights};
use relive_env::{ArraySpec, EnvironmentSpec};
use relive_flow::Flow;
use relive_nn::{Activation, Adam, Key, Layout, Network, Optimizer, Params, Scratch, Stream};
use relive_rl::plan::{Crew, Learn, MakeEnvironment, Progress};
use relive_rl::run::{RunOptions, train};
use relive_rl::{
    ActStep, Agent, Features, Learner, Learnt, Policy, PolicyContext, Purpose, Result, RlError, Rollout,
    Saveable, Weights,
};

struct Reinforce {
    learning_rate: f32,
    discount: f32,
}

/// Returns a network from observations to one logit for each action.
fn network(spec: &EnvironmentSpec, key: Key) -> Result<(Features, Network, Params)> {
    let features = Features::of_observations(&spec.observations)?;
    let actions = spec.actions.leaves().find_map(ArraySpec::num_values);
    let actions =
        actions.ok_or(RlError::Unsuited { expected: "a discrete action", got: "none".to_owned() })?;
    let mut layout = Layout::new();
    let network = Network::builder(&mut layout, "policy", features.width());
    let network = network.mlp(&[64], Activation::Tanh).linear(actions as usize).build();
    Ok((features, network, layout.init(key)))
}

fn softmax(logits: &[f32]) -> Vec<f32> {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let powers: Vec<f32> = logits.iter().map(|logit| (logit - most).exp()).collect();
    let sum: f32 = powers.iter().sum();
    powers.iter().map(|power| power / sum).collect()
}

/// Draws an action with the probabilities of the softmax.
fn draw(logits: &[f32], stream: &mut Stream) -> usize {
    let mut left = stream.uniform() as f32;
    let drawn = softmax(logits).iter().position(|share| {
        left -= share;
        left < 0.0
    });
    drawn.unwrap_or(logits.len() - 1)
}

fn largest(logits: &[f32]) -> usize {
    (0..logits.len()).max_by(|one, two| logits[*one].total_cmp(&logits[*two])).unwrap_or(0)
}

struct SoftmaxPolicy {
    features: Features,
    network: Network,
    params: Params,
    streams: Streams,
    explores: bool,
}

impl Policy for SoftmaxPolicy {
    fn act(&mut self, step: &mut ActStep<'_>) -> Result<()> {
        let (mut rows, mut scratch) = (Vec::new(), Scratch::default());
        self.features.write_rows(step.observations, &mut rows);
        let outputs = self.network.infer_each(&self.params, &rows, &mut scratch);
        let actions = step.actions.leaf_mut::<i32>(0)?;
        let of_rows = outputs.chunks_exact(self.network.outputs()).zip(self.streams.each());
        for ((logits, stream), action) in of_rows.zip(actions) {
            let chosen = if self.explores { draw(logits, stream) } else { largest(logits) };
            *action = chosen as i32;
        }
        Ok(())
    }

    fn load(&mut self, newer: &Weights) -> Result<()> {
        weights::load(&mut self.params, newer)
    }
}

impl Saveable for SoftmaxPolicy {
    fn save(&mut self) -> Vec<u8> {
        self.streams.save()
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        self.streams.restore(state)
    }
}

struct ReinforceLearner {
    features: Features,
    network: Network,
    params: Params,
    optimizer: Optimizer,
    discount: f32,
}

impl ReinforceLearner {
    /// Computes the return of each cell until the end of its episode or of the rollout, as a deviation from the mean over
    /// these `cells`.
    fn returns(&self, rollout: &Rollout, cells: &[usize]) -> Vec<f32> {
        let mut returns = vec![0.0; rollout.answers.len()];
        for cell in (0..returns.len()).rev() {
            let answer = rollout.answers[cell];
            let after = returns.get(cell + rollout.rows).copied().unwrap_or(0.0);
            let continues = if answer.last() || answer.first() { 0.0 } else { self.discount };
            returns[cell] = answer.reward as f32 + continues * after;
        }
        let mean = cells.iter().map(|cell| returns[*cell]).sum::<f32>() / cells.len() as f32;
        returns.iter().map(|value| value - mean).collect()
    }
}

impl Learner for ReinforceLearner {
    type Batch = Rollout;

    fn learn(&mut self, rollout: Rollout) -> Result<Learnt> {
        let mut rows = Vec::new();
        self.features.write_rows(&rollout.observations, &mut rows);
        rows.truncate(rollout.answers.len() * self.network.inputs());
        let cells: Vec<usize> = rollout.learnable().collect();
        let (returns, actions) = (self.returns(&rollout, &cells), rollout.actions.leaf::<i32>(0)?);
        let width = self.network.outputs();
        let ((), gradient) = self.network.gradient(&self.params, &rows, |logits, by_logits| {
            for cell in &cells {
                let range = cell * width..(cell + 1) * width;
                for (action, share) in softmax(&logits[range.clone()]).into_iter().enumerate() {
                    let taken = f32::from(u8::from(action as i32 == actions[*cell]));
                    by_logits[range.start + action] = (share - taken) * returns[*cell] / cells.len() as f32;
                }
            }
        });
        if !self.optimizer.step(&mut self.params, &gradient).is_finite() {
            return Err(RlError::Diverged { step: self.optimizer.steps(), loss: f32::NAN });
        }
        Ok(Learnt { steps: 1, samples: cells.len() as u64, ..Learnt::default() })
    }

    fn weights(&self) -> Result<Weights> {
        weights::published(&self.params)
    }
}

impl Saveable for ReinforceLearner {
    fn save(&mut self) -> Vec<u8> {
        [self.params.as_bytes(), &self.optimizer.to_bytes()].concat()
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let (params, optimizer) = state.split_at(self.params.as_bytes().len().min(state.len()));
        let refused = |error| RlError::state("a learner of REINFORCE", error);
        self.optimizer.set_bytes(optimizer).map_err(refused)?;
        // Each step of the optimizer is a version, by which workers identify weights.
        self.params.set_bytes(params, self.optimizer.steps()).map_err(refused)
    }
}

impl Agent for Reinforce {
    fn name(&self) -> &'static str {
        "reinforce"
    }

    fn settings(&self) -> Vec<(String, String)> {
        let settings = [("learning_rate", self.learning_rate), ("discount", self.discount)];
        settings.map(|(name, value)| (name.to_owned(), value.to_string())).to_vec()
    }

    fn validate(&self) -> Result<()> {
        Ok(())
    }

    fn environments(&self, _workers: usize) -> usize {
        8
    }

    fn policy(&self, context: &PolicyContext<'_>) -> Result<Box<dyn Policy>> {
        let (features, network, params) = network(context.spec, Key::from_seed(0))?;
        let (streams, explores) = (Streams::new(context.keys), context.purpose == Purpose::Training);
        Ok(Box::new(SoftmaxPolicy { features, network, params, streams, explores }))
    }

    fn plan(&self, crew: &Crew) -> Result<Flow<Progress>> {
        let (features, network, params) = network(crew.spec(), crew.learner_key())?;
        let adam = Adam { learning_rate: self.learning_rate, ..Adam::default() };
        let optimizer = Optimizer::adam(adam, &params);
        let learner = ReinforceLearner { features, network, params, optimizer, discount: self.discount };
        Ok(crew.rollouts(128)?.sync()?.learn(crew.learner(learner)?))
    }
}

fn trained(env_steps: u64, actors: usize) -> Result<f64> {
    let agent: Arc<dyn Agent> = Arc::new(Reinforce { learning_rate: 1e-2, discount: 0.99 });
    let make = MakeEnvironment::new(|seed| Ok(relive_env::make("CartPole-v1", seed)?));
    let environment = "CartPole-v1".to_owned();
    let options = RunOptions { environment, env_steps, seed: 1, actors, ..RunOptions::default() };
    Ok(train(&agent, &options, &make, &mut |_| {})?.summary.mean_return_last_100)
}

fn main() -> Result<()> {
    println!("mean return of the last 100 episodes: {:.1}", trained(200_000, 2)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reinforce_learns_with_any_number_of_actors() {
        let alone = trained(60_000, 0).unwrap();
        assert!(alone > 100.0, "{alone}");
        assert_eq!(trained(60_000, 2).unwrap(), alone);
    }
}
