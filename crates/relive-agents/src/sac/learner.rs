//! One gradient step of policy, critics and temperature for each batch.

use std::sync::mpsc;

use relive_nn::{Adam, Init, Layout, Network, Optimizer, Params};
use relive_rl::plan::{Crew, SampleBatch, Transitions};
use relive_rl::{Learner, Learnt, Result, RlError, Saveable, Weights};

use super::SacConfig;
use super::gradients::{Continuation, Criticism, Direction, Seen};
use super::network::{self, Spaces};
use crate::saved::{self, Saved};
use crate::weights;

/// Products of a batch from which a second thread is worth its while.
const MANY_PRODUCTS: usize = 4_000_000;

/// Learns from batches of transitions.
#[derive(Debug)]
pub(super) struct SacLearner {
    tau: f32,
    spaces: Spaces,
    policy: Trained<Network>,
    critics: Trained<[Network; 2]>,
    target: Params,
    /// One number: the logarithm of the temperature.
    temperature: Trained<()>,
    target_entropy: f32,
    batch: Transitions,
    continuation: Continuation,
    criticism: Criticism,
    direction: Direction,
    has_threads: bool,
}

/// Networks with their parameters, and what improves these.
#[derive(Debug)]
struct Trained<N> {
    networks: N,
    params: Params,
    optimizer: Optimizer,
    gradient: Vec<f32>,
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
        let (policy, policy_params) = network::policy(&spaces, &config.hidden, key)?;
        let (critics, critic_params) = network::critics(&spaces, &config.hidden, key)?;
        let mut layout = Layout::new();
        layout.add("log_temperature", &[1], Init::Constant(config.initial_temperature.ln()));
        #[expect(clippy::cast_precision_loss, reason = "numbers of an action")]
        let dimensions = spaces.dimensions() as f32;
        let products = config.batch_size * critic_params.values().len();
        Ok(SacLearner {
            tau: config.tau,
            target_entropy: config.target_entropy.unwrap_or(-dimensions),
            policy: Trained::new(policy, policy_params, rate),
            target: critic_params.clone(),
            critics: Trained::new(critics, critic_params, rate),
            temperature: Trained::new((), layout.init(key), rate),
            batch: Transitions::new(crew.spec(), config.discount)?,
            continuation: Continuation::new(key.child("next actions").stream()),
            criticism: Criticism::default(),
            direction: Direction::new(key.child("actions").stream()),
            has_threads: products >= MANY_PRODUCTS
                && std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1),
            spaces,
        })
    }

    fn improve(&mut self) -> Result<[f32; 4]> {
        let temperature = self.temperature.params.values()[0].exp();
        let Self { spaces, policy, critics, target, batch, continuation, criticism, direction, .. } = self;
        let seen = Seen {
            spaces,
            batch,
            policy: (&policy.networks, &policy.params),
            critics: (&critics.networks, &critics.params),
            temperature,
        };
        let (of_critics, of_policy) = (&mut critics.gradient, &mut policy.gradient);
        // Both do about as much, and what they find does not depend on who is first: the numbers are the same with one thread as with two.
        let (critic_loss, (policy_loss, log_probability)) = if self.has_threads {
            std::thread::scope(|threads| {
                let (drawn, next) = mpsc::channel();
                let criticized =
                    threads.spawn(|| criticism.find(&seen, target, move || next.recv().ok(), of_critics));
                // Nobody listens only after a panic, which is told below.
                let _ = drawn.send(continuation.draw(&seen));
                let directed = direction.find(&seen, of_policy);
                // A panic goes on here, where the operator tells it.
                let criticized = criticized.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                (criticized, directed)
            })
        } else {
            let criticized = criticism.find(&seen, target, || Some(continuation.draw(&seen)), of_critics);
            (criticized, direction.find(&seen, of_policy))
        };
        let critic_loss = critic_loss.unwrap_or(f32::NAN);
        self.temperature.gradient[0] = -(log_probability + self.target_entropy);
        let norms = [self.critics.step(), self.policy.step(), self.temperature.step()];
        self.target.polyak_from(&self.critics.params, self.tau);
        if norms.iter().chain([&critic_loss, &policy_loss]).all(|number| number.is_finite()) {
            return Ok([critic_loss, policy_loss, -log_probability, temperature]);
        }
        Err(RlError::Diverged { step: self.policy.optimizer.steps(), loss: critic_loss + policy_loss })
    }
}

impl Learner for SacLearner {
    type Batch = Vec<SampleBatch>;

    fn learn(&mut self, batches: Vec<SampleBatch>) -> Result<Learnt> {
        self.batch.read(&batches)?;
        self.spaces.scale(&mut self.batch.actions);
        let found = self.improve()?.map(f64::from);
        let metrics = ["critic_loss", "policy_loss", "entropy", "temperature"].into_iter().zip(found);
        Ok(Learnt {
            steps: 1,
            samples: self.batch.rewards.len() as u64,
            metrics: metrics.collect(),
            priorities: Vec::new(),
        })
    }

    fn weights(&self) -> Result<Weights> {
        weights::published(&self.policy.params)
    }
}

/// Whose state it is, in messages.
const WHAT: &str = "a learner of SAC";

impl Saveable for SacLearner {
    fn save(&mut self) -> Vec<u8> {
        saved::save(&mut self.parts())
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        saved::restore(WHAT, &mut self.parts(), bytes)
    }
}

impl SacLearner {
    fn parts(&mut self) -> [Saved<'_>; 9] {
        let Self { target, policy, critics, temperature, continuation, direction, .. } = self;
        [
            Saved::Stream(&mut continuation.stream),
            Saved::Stream(&mut direction.stream),
            Saved::Params(target),
            Saved::Params(&mut policy.params),
            Saved::Optimizer(&mut policy.optimizer),
            Saved::Params(&mut critics.params),
            Saved::Optimizer(&mut critics.optimizer),
            Saved::Params(&mut temperature.params),
            Saved::Optimizer(&mut temperature.optimizer),
        ]
    }
}
