//! One gradient step of policy, critics and temperature per batch.

use std::sync::mpsc;

use relive_env::EnvironmentSpec;
use relive_nn::{Init, Key, Layout, Network, Params};
use relive_rl::Result;
use relive_rl::learners::Peers;
use relive_rl::plan::Transitions;
use relive_threads::Pool;

use super::SacConfig;
use super::gradients::{CriticGradient, GradientInputs, NextActionSampler, PolicyGradient};
use crate::continuous::{
    CriticReduction, Critics, Improve, Returns, Role, Spaces, StepMetrics, TargetUpdate, Trained, checked,
};
use crate::saved::Saved;
use crate::together;

/// The number of multiplications per batch above which a second thread is worthwhile.
const MANY_PRODUCTS: usize = 4_000_000;

/// The gradient step of SAC.
#[derive(Debug)]
pub(super) struct SacStep {
    target_update: TargetUpdate,
    dimensions: usize,
    policy: Trained<Network>,
    critics: Trained<Critics>,
    target: Params,
    /// The logarithm of the temperature.
    temperature: Trained<()>,
    target_entropy: f32,
    continuation: NextActionSampler,
    criticism: CriticGradient,
    direction: PolicyGradient,
    is_divided: bool,
}

impl SacStep {
    pub(super) fn new(config: &SacConfig, spec: &EnvironmentSpec, key: Key) -> Result<SacStep> {
        let (spaces, rate) = (Spaces::of(spec)?, config.learning_rate);
        let policy = config.layers().policy(&spaces, 2 * spaces.dimensions(), Role::Linear, key)?;
        let shape = (config.critics, Returns::Value, Role::Linear);
        let critics = Trained::new(Critics::new(&spaces, config.layers(), shape, key)?, rate);
        let mut layout = Layout::new();
        layout.add("log_temperature", &[1], Init::Constant(config.initial_temperature.ln()));
        #[expect(clippy::cast_precision_loss, reason = "numbers of an action")]
        let dimensions = spaces.dimensions() as f32;
        let products = config.batch_size * critics.params.values().len();
        let all_count = config.critics_of_target == config.critics;
        let counts = if all_count { CriticReduction::Least } else { CriticReduction::Mean };
        Ok(SacStep {
            target_update: TargetUpdate::Move { tau: config.tau },
            target_entropy: config.target_entropy.unwrap_or(-dimensions),
            dimensions: spaces.dimensions(),
            policy: Trained::new(policy, rate),
            target: critics.params.clone(),
            critics,
            temperature: Trained::new(((), layout.init(key)), rate),
            continuation: NextActionSampler::new(
                key.child("next actions").stream(),
                config.critics_of_target,
            ),
            criticism: CriticGradient::default(),
            direction: PolicyGradient::new(key.child("actions").stream(), counts),
            is_divided: products >= MANY_PRODUCTS,
        })
    }

    /// Computes the gradients of critics and policy. Returns the losses of critics and policy, and the mean of log π.
    fn find(&mut self, batch: &Transitions, temperature: f32) -> (f32, (f32, f32)) {
        let Self { policy, critics, target, continuation, criticism, direction, .. } = self;
        let seen = &GradientInputs {
            dimensions: self.dimensions,
            batch,
            policy: (&policy.networks, &policy.params),
            critics: (&critics.networks, &critics.params),
            temperature,
        };
        let (of_critics, of_policy) = (&mut critics.gradient, &mut policy.gradient);
        let (drawn, next) = mpsc::channel();
        let direct = move || {
            let continuation = continuation;
            // The receiver is only gone after a panic.
            let _ = drawn.send(continuation.draw(seen));
            direction.find(seen, of_policy)
        };
        let mut criticize = move || criticism.find(seen, target, || next.recv().ok(), of_critics);
        // Both do about the same amount of work. The results do not depend on their order, so one thread and two threads
        // give the same numbers.
        let (directed, criticized) = if self.is_divided {
            Pool::of_process().join(direct, criticize)
        } else {
            (direct(), criticize())
        };
        (criticized.unwrap_or(f32::NAN), directed)
    }
}

impl Improve for SacStep {
    const WHAT: &'static str = "a learner of SAC";

    fn improve(&mut self, batch: &Transitions) -> Result<StepMetrics> {
        let temperature = self.temperature.params.values()[0].exp();
        let (critic_loss, (policy_loss, log_probability)) = self.find(batch, temperature);
        self.temperature.gradient[0] = -(log_probability + self.target_entropy);
        let norms = [self.critics.step()?, self.policy.step()?, self.temperature.step()?];
        let step = self.policy.optimizer.steps();
        self.target_update.follow(&mut self.target, &self.critics.params, step);
        let found = vec![
            ("critic_loss", critic_loss),
            ("policy_loss", policy_loss),
            ("entropy", -log_probability),
            ("temperature", temperature),
        ];
        checked(step, &norms, found)
    }

    fn share(&mut self, peers: &Peers) {
        let Self { policy, critics, temperature, continuation, direction, .. } = self;
        policy.share(peers);
        critics.share(peers);
        temperature.share(peers);
        together::separate_stream(&mut continuation.stream, peers);
        together::separate_stream(&mut direction.stream, peers);
    }

    fn acting(&self) -> &Params {
        &self.policy.params
    }

    fn parts(&mut self) -> Vec<Saved<'_>> {
        let Self { target, policy, critics, temperature, continuation, direction, .. } = self;
        let mut parts = vec![
            Saved::Stream(&mut continuation.stream),
            Saved::Stream(&mut direction.stream),
            Saved::Params(target),
        ];
        parts.extend(policy.parts());
        parts.extend(critics.parts());
        parts.extend(temperature.parts());
        parts
    }
}
