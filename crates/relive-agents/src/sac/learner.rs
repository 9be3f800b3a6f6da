//! One gradient step of policy, critics and temperature for each batch.

use relive_env::State;
use relive_nn::{Adam, Init, Layout, Network, Optimizer, Params, Scratch, Stream};
use relive_rl::plan::{Crew, Learner, Learnt, SampleBatch, Transitions, Weights};
use relive_rl::{Result, RlError, Saveable};

use super::SacConfig;
use super::agent::diverged;
use super::loss::{Drawn, critic_loss, least_value_loss, targets};
use super::network::{self, Spaces, join};
use crate::weights;

/// Learns from batches of transitions.
#[derive(Debug)]
pub(super) struct SacLearner {
    tau: f32,
    target_entropy: f32,
    spaces: Spaces,
    policy: Trained<Network>,
    critics: Trained<[Network; 2]>,
    target: Params,
    /// One number: the logarithm of the temperature.
    temperature: Trained<()>,
    stream: Stream,
    batch: Transitions,
    memory: Memory,
}

/// Networks with their parameters, and what improves these.
#[derive(Debug)]
struct Trained<N> {
    networks: N,
    params: Params,
    optimizer: Optimizer,
    gradient: Vec<f32>,
}

/// Memory that is used again.
#[derive(Debug, Default)]
struct Memory {
    scratch: [Scratch; 3],
    next: Drawn,
    drawn: Drawn,
    rows: Vec<f32>,
    targets: Vec<f32>,
    by_rows: [Vec<f32>; 2],
    by_actions: Vec<f32>,
}

/// What a batch has told.
#[derive(Debug, Default, Clone, Copy)]
struct Found {
    critic_loss: f32,
    policy_loss: f32,
    entropy: f32,
    temperature: f32,
}

impl<N> Trained<N> {
    fn new(networks: N, params: Params, learning_rate: f32) -> Trained<N> {
        let adam = Adam { learning_rate, ..Adam::default() };
        let gradient = vec![0.0; params.values().len()];
        Trained { networks, optimizer: Optimizer::adam(adam, &params), params, gradient }
    }

    /// The norm of the gradient.
    fn step(&mut self) -> f32 {
        self.optimizer.step(&mut self.params, &self.gradient)
    }
}

impl SacLearner {
    pub(super) fn new(config: &SacConfig, crew: &Crew) -> Result<SacLearner> {
        let (spaces, key, rate) = (Spaces::of(crew.spec())?, crew.learner_key(), config.learning_rate);
        let (policy, policy_params) = network::policy(&spaces, &config.hidden, key);
        let (critics, critic_params) = network::critics(&spaces, &config.hidden, key);
        let mut layout = Layout::new();
        layout.add("log_temperature", &[1], Init::Constant(config.initial_temperature.ln()));
        #[expect(clippy::cast_precision_loss, reason = "numbers of an action")]
        let dimensions = spaces.dimensions() as f32;
        Ok(SacLearner {
            tau: config.tau,
            target_entropy: config.target_entropy.unwrap_or(-dimensions),
            policy: Trained::new(policy, policy_params, rate),
            target: critic_params.clone(),
            critics: Trained::new(critics, critic_params, rate),
            temperature: Trained::new((), layout.init(key), rate),
            stream: key.child("actions").stream(),
            batch: Transitions::new(crew.spec(), config.discount)?,
            memory: Memory::default(),
            spaces,
        })
    }

    /// Half the mean squared errors of both critics, whose gradient is left in its place.
    fn criticize(&mut self, temperature: f32) -> f32 {
        let Self { spaces, policy, critics, target, stream, batch, memory, .. } = self;
        let Memory { scratch: [for_policy, first, second], next, rows, targets: aims, .. } = memory;
        let dimensions = spaces.dimensions();
        let outputs = policy.networks.infer(&policy.params, &batch.next_observations, for_policy);
        next.draw(outputs, dimensions, stream);
        join(&batch.next_observations, &next.actions, dimensions, rows);
        let [one, other] = &critics.networks;
        let values = [one.infer(target, rows, first), other.infer(target, rows, second)];
        targets((&batch.rewards, &batch.discounts), values, next, temperature, aims);
        join(&batch.observations, &batch.actions, dimensions, rows);
        let Trained { networks, params, gradient, .. } = critics;
        let loss = |critic: &Network| {
            critic.gradient_into(params, rows, gradient, |values, by| critic_loss(values, aims, by))
        };
        networks.iter().map(loss).sum()
    }

    /// The loss of the policy and the mean of log π, whose gradients by policy and temperature are left in their places.
    #[expect(clippy::cast_precision_loss, reason = "rows of a batch")]
    fn direct(&mut self, temperature: f32) -> (f32, f32) {
        let Self { spaces, policy, critics, stream, batch, memory, .. } = self;
        let Memory { drawn, rows, by_rows: [by_first, by_second], by_actions, .. } = memory;
        let (dimensions, width) = (spaces.dimensions(), spaces.observations.width());
        let Trained { networks, params, gradient, .. } = policy;
        let loss = networks.gradient_into(params, &batch.observations, gradient, |outputs, by_outputs| {
            drawn.draw(outputs, dimensions, stream);
            join(&batch.observations, &drawn.actions, dimensions, rows);
            by_first.resize(rows.len(), 0.0);
            by_second.resize(rows.len(), 0.0);
            let ([one, other], params) = (&critics.networks, &critics.params);
            let loss = one.input_gradient_into(params, rows, by_first, |first, by_value| {
                other.input_gradient_into(params, rows, by_second, |second, by_other| {
                    least_value_loss([first, second], [by_value, by_other])
                })
            });
            by_actions.clear();
            let both =
                by_first.chunks_exact(width + dimensions).zip(by_second.chunks_exact(width + dimensions));
            for (first, second) in both {
                by_actions.extend(first[width..].iter().zip(&second[width..]).map(|(a, b)| a + b));
            }
            drawn.pull_back(outputs, by_actions, temperature, by_outputs);
            loss
        });
        let sum: f32 = drawn.log_probabilities.iter().sum();
        let log_probability = sum / drawn.log_probabilities.len().max(1) as f32;
        self.temperature.gradient[0] = -(log_probability + self.target_entropy);
        (loss + temperature * log_probability, log_probability)
    }

    fn improve(&mut self) -> Result<Found> {
        let temperature = self.temperature.params.values()[0].exp();
        let critic_loss = self.criticize(temperature);
        let (policy_loss, log_probability) = self.direct(temperature);
        let norms = [self.critics.step(), self.policy.step(), self.temperature.step()];
        self.target.polyak_from(&self.critics.params, self.tau);
        let found = Found { critic_loss, policy_loss, entropy: -log_probability, temperature };
        if norms.iter().chain([&critic_loss, &policy_loss]).all(|number| number.is_finite()) {
            return Ok(found);
        }
        Err(diverged(self.policy.optimizer.steps(), critic_loss + policy_loss))
    }
}

impl Learner for SacLearner {
    type Batch = SampleBatch;

    fn learn(&mut self, batch: SampleBatch) -> Result<Learnt> {
        self.batch.read(&batch)?;
        self.spaces.scale(&mut self.batch.actions);
        let found = self.improve()?;
        let metrics = vec![
            ("critic_loss", f64::from(found.critic_loss)),
            ("policy_loss", f64::from(found.policy_loss)),
            ("entropy", f64::from(found.entropy)),
            ("temperature", f64::from(found.temperature)),
        ];
        Ok(Learnt { steps: 1, samples: batch.len() as u64, metrics })
    }

    fn weights(&self) -> Result<Weights> {
        weights::published(&self.policy.params)
    }
}

/// Whose state it is, in messages.
const WHAT: &str = "a learner of SAC";

impl Saveable for SacLearner {
    fn save(&mut self) -> Vec<u8> {
        let mut versions = [0; 4];
        let mut arrays = vec![self.stream.to_bytes(), self.target.as_bytes().to_vec()];
        versions[0] = self.target.version();
        let trained = [
            (&self.policy.params, &self.policy.optimizer),
            (&self.critics.params, &self.critics.optimizer),
            (&self.temperature.params, &self.temperature.optimizer),
        ];
        for (place, (params, optimizer)) in trained.into_iter().enumerate() {
            versions[place + 1] = params.version();
            arrays.extend([params.as_bytes().to_vec(), optimizer.to_bytes()]);
        }
        let mut bytes = Vec::new();
        visit(&mut State::writer(&mut bytes), &mut versions, &mut arrays);
        bytes
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        let refused =
            |reason: &dyn std::fmt::Display| RlError::State { what: WHAT, reason: reason.to_string() };
        let (mut versions, mut arrays) = ([0; 4], vec![Vec::new(); 8]);
        let mut state = State::reader(bytes);
        visit(&mut state, &mut versions, &mut arrays);
        state.finish().map_err(|error| refused(&error))?;
        self.stream = Stream::from_bytes(&arrays[0]).map_err(|error| refused(&error))?;
        self.target.set_bytes(&arrays[1], versions[0]).map_err(|error| refused(&error))?;
        let trained = [
            (&mut self.policy.params, &mut self.policy.optimizer),
            (&mut self.critics.params, &mut self.critics.optimizer),
            (&mut self.temperature.params, &mut self.temperature.optimizer),
        ];
        for (place, (params, optimizer)) in trained.into_iter().enumerate() {
            let of_params = params.set_bytes(&arrays[2 + 2 * place], versions[place + 1]);
            of_params.map_err(|error| refused(&error))?;
            optimizer.set_bytes(&arrays[3 + 2 * place]).map_err(|error| refused(&error))?;
        }
        Ok(())
    }
}

fn visit(state: &mut State<'_>, versions: &mut [u64; 4], arrays: &mut [Vec<u8>]) {
    state.fields(versions);
    arrays.iter_mut().for_each(|array| state.bytes(array));
}
