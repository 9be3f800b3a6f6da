//! The plan of agents with a deterministic policy, and its gradient step.

use relive_env::EnvironmentSpec;
use relive_flow::Flow;
use relive_nn::losses::{DpgClip, deterministic_policy_gradient};
use relive_nn::{Key, Network, Params, Scratch, Stream};
use relive_rl::Result;
use relive_rl::learners::Peers;
use relive_rl::plan::{Crew, Learn, Progress, SharedLearner, Transitions};

use super::settings::Settings;
use crate::continuous::{
    ActionGradients, ActionValues, CriticReduction, Critics, Improve, Returns, Role, Spaces, StepMetrics,
    Trained, TransitionLearner, checked, draw, join,
};
use crate::misfit::Misfits;
use crate::saved::Saved;
use crate::together;

impl Settings {
    /// Returns the learner.
    pub(super) fn learner(&self, crew: &Crew) -> Result<SharedLearner<TransitionLearner<DpgStep>>> {
        let step = DpgStep::new(self, crew.spec(), crew.learner_key())?;
        let (discount, normalizes) = (self.off_policy.discount, self.normalize_observations);
        crew.learner(TransitionLearner::new(crew, discount, normalizes, step)?)
    }

    /// Returns the plan, in which workers write to the table and the learner learns from it.
    pub(super) fn plan(&self, crew: &Crew) -> Result<Flow<Progress>> {
        let learning = self.off_policy.batches(crew)?.learn(self.learner(crew)?);
        self.off_policy.plan(crew, learning)
    }
}

/// The gradient step of agents with a deterministic policy.
#[derive(Debug)]
pub(super) struct DpgStep {
    settings: Settings,
    dimensions: usize,
    policy: Trained<Network>,
    critics: Trained<Critics>,
    target_policy: Params,
    target_critics: Params,
    stream: Stream,
    /// The loss of the policy's latest step; its steps are rarer than those of the critics.
    policy_loss: f32,
    memory: Buffers,
}

/// Reused memory.
#[derive(Debug, Default)]
struct Buffers {
    scratch: Scratch,
    valuing: ActionValues,
    climbing: ActionGradients,
    actions: Vec<f32>,
    rows: Vec<f32>,
    targets: Vec<f32>,
    misfits: Misfits,
}

impl DpgStep {
    pub(super) fn new(settings: &Settings, spec: &EnvironmentSpec, key: Key) -> Result<DpgStep> {
        let spaces = Spaces::of(spec)?;
        let dimensions = spaces.dimensions();
        let policy = settings.policy_layers().policy(&spaces, dimensions, Role::Action, key)?;
        let shape = (settings.critics, settings.returns, Role::Linear);
        let critics = Critics::new(&spaces, settings.critic_layers(), shape, key)?;
        let bound = settings.max_gradient_norm;
        let policy = Trained::new(policy, settings.policy_learning_rate).bounded(bound);
        let critics = Trained::new(critics, settings.critic_learning_rate).bounded(bound);
        Ok(DpgStep {
            settings: settings.clone(),
            dimensions,
            target_policy: policy.params.clone(),
            target_critics: critics.params.clone(),
            policy,
            critics,
            stream: key.child("next actions").stream(),
            policy_loss: 0.0,
            memory: Buffers::default(),
        })
    }

    /// Computes the targets of the critics: the return of the target policy, whose actions may have noise.
    fn compute_targets(&mut self, batch: &Transitions) {
        let Buffers { scratch, valuing, actions, rows, targets, misfits, .. } = &mut self.memory;
        let next = self.policy.networks.infer(&self.target_policy, &batch.next_observations, scratch);
        actions.clear();
        actions.extend_from_slice(next);
        let [noise, bound] = self.settings.policy.target_noise;
        if noise > 0.0 {
            for action in actions.iter_mut() {
                let added = (noise * draw(&mut self.stream)).clamp(-bound, bound);
                *action = (*action + added).clamp(-1.0, 1.0);
            }
        }
        join(&batch.next_observations, actions, self.dimensions, rows);
        let (critics, params) = (&self.critics.networks, &self.target_critics);
        let earned = (&batch.rewards[..], &batch.discounts[..]);
        match critics.networks.len() {
            1 => {
                let outputs = valuing.outputs(critics, params, rows);
                critics.returns.tell_range(misfits, earned, outputs);
                critics.returns.targets(earned, outputs, targets);
            }
            all => {
                let least = valuing.least(critics, params, rows, 0..all);
                Returns::Value.targets(earned, least, targets);
            }
        }
    }

    /// Computes the policy's gradient, which goes through the critic. Returns the loss: −mean Q, or for TD3+BC the
    /// weighted sum of −mean Q and the imitation loss (Fujimoto and Gu, 2021, equation 5).
    #[expect(clippy::cast_precision_loss, reason = "rows of a batch")]
    fn policy_gradient(&mut self, batch: &Transitions) -> f32 {
        let (rule, clip) = (self.settings.policy, self.settings.max_action_gradient);
        let Buffers { climbing, rows, .. } = &mut self.memory;
        let observations = if rule.at_next { &batch.next_observations } else { &batch.observations };
        let (critics, dimensions) = (&self.critics, self.dimensions);
        let Trained { networks: policy, params, gradient, .. } = &mut self.policy;
        policy.gradient_into(params, observations, gradient, |actions, by_actions| {
            join(observations, actions, dimensions, rows);
            let place = (&rows[..], dimensions);
            let loss = climbing.find(&critics.networks, &critics.params, place, CriticReduction::First);
            let count = batch.rewards.len() as f32;
            let slopes = &mut climbing.by_actions;
            slopes.iter_mut().for_each(|by| *by *= -count);
            let clip = clip.map_or(DpgClip::None, DpgClip::Norm);
            deterministic_policy_gradient(slopes, dimensions, clip, by_actions);
            let Some(alpha) = rule.beside_imitation else { return loss };
            let size = climbing.values.iter().map(|value| value.abs()).sum::<f32>() / count;
            imitate(actions, &batch.actions, alpha / size.max(f32::MIN_POSITIVE), by_actions)
                + loss * alpha / size.max(f32::MIN_POSITIVE)
        })
    }
}

/// Computes the mean of (π(s) − a)² over all numbers. Its gradient is added to the existing gradient, which is first
/// multiplied by λ.
#[expect(clippy::cast_precision_loss, reason = "numbers of a batch")]
fn imitate(actions: &[f32], taken: &[f32], lambda: f32, by_actions: &mut [f32]) -> f32 {
    let (mut loss, count) = (0.0, actions.len().max(1) as f32);
    for ((action, taken), by) in actions.iter().zip(taken).zip(by_actions) {
        let apart = action - taken;
        loss += apart * apart / count;
        *by = lambda * *by + 2.0 * apart / count;
    }
    loss
}

impl Improve for DpgStep {
    const WHAT: &'static str = "a learner with a deterministic policy";

    fn improve(&mut self, batch: &Transitions) -> Result<StepMetrics> {
        self.compute_targets(batch);
        let Buffers { rows, targets, .. } = &mut self.memory;
        join(&batch.observations, &batch.actions, self.dimensions, rows);
        let Trained { networks, params, gradient, .. } = &mut self.critics;
        let critic_loss = networks.loss(params, rows, targets, gradient);
        let (rule, step) = (self.settings.policy, self.critics.optimizer.steps() + 1);
        let is_due = step.is_multiple_of(rule.period);
        let mut norms = [0.0; 2];
        if is_due {
            self.policy_loss = self.policy_gradient(batch);
            norms[1] = self.policy.step()?;
        }
        norms[0] = self.critics.step()?;
        let update = self.settings.target_update;
        update.follow(&mut self.target_critics, &self.critics.params, step);
        if is_due {
            update.follow(&mut self.target_policy, &self.policy.params, step);
        }
        checked(step, &norms, vec![("critic_loss", critic_loss), ("policy_loss", self.policy_loss)])
    }

    fn share(&mut self, peers: &Peers) {
        self.policy.share(peers);
        self.critics.share(peers);
        together::separate_stream(&mut self.stream, peers);
    }

    fn acting(&self) -> &Params {
        if self.settings.policy.acts_by_target { &self.target_policy } else { &self.policy.params }
    }

    fn learned(&self) -> &Params {
        &self.policy.params
    }

    fn parts(&mut self) -> Vec<Saved<'_>> {
        let Self { policy, critics, target_policy, target_critics, stream, policy_loss, .. } = self;
        let mut parts =
            vec![Saved::Stream(stream), Saved::Params(target_policy), Saved::Params(target_critics)];
        parts.extend(policy.parts());
        parts.extend(critics.parts());
        parts.push(Saved::Fields(policy_loss));
        parts
    }
}

#[cfg(test)]
mod tests {
    use relive_env::ArraySpec;
    use relive_tensor::{DType, Nest};

    use super::super::settings::PolicyRule;
    use super::*;
    use crate::continuous::{TargetUpdate, categorical};
    use crate::off_policy::OffPolicy;

    /// Returns linear networks over a one-dimensional observation and action.
    fn linear(critics: usize, policy: PolicyRule) -> Settings {
        let off_policy = OffPolicy {
            batch_size: 1,
            samples_per_insert: 1.0,
            n_step: 1,
            discount: 0.9,
            min_replay_size: 1,
            max_replay_size: 10,
            shards: 1,
            environments: 1,
        };
        Settings {
            off_policy,
            policy_learning_rate: 0.1,
            critic_learning_rate: 0.1,
            critics,
            returns: Returns::Value,
            target_update: TargetUpdate::Copy { period: 1 },
            policy,
            max_action_gradient: None,
            max_gradient_norm: None,
            noise: 0.1,
            noise_correlation: 0.0,
            normalize_observations: false,
            hidden: Vec::new(),
            critic_hidden: Vec::new(),
        }
    }

    fn spec() -> EnvironmentSpec {
        let observations = ArraySpec::new("", DType::Float32, [1]);
        let actions = ArraySpec::new("", DType::Float32, [1]).bounded(-1.0, 1.0);
        EnvironmentSpec::new(Nest::Leaf(observations), Nest::Leaf(actions))
    }

    fn transition() -> Transitions {
        let mut batch = Transitions::new(&spec(), 0.9).unwrap();
        (batch.observations, batch.actions) = (vec![2.0], vec![0.5]);
        (batch.rewards, batch.discounts, batch.next_observations) = (vec![1.0], vec![0.9], vec![-1.0]);
        batch
    }

    /// Returns a step whose policy is tanh(0.3·s + 0.1), and whose critics have the given weights for s and a, and the
    /// given bias.
    fn step(settings: &Settings, critics: &[[f32; 3]]) -> DpgStep {
        let mut step = DpgStep::new(settings, &spec(), Key::from_seed(1)).unwrap();
        step.policy.params.values_mut().copy_from_slice(&[0.3, 0.1]);
        step.critics.params.values_mut().copy_from_slice(&critics.concat());
        step.target_policy.copy_from(&step.policy.params);
        step.target_critics.copy_from(&step.critics.params);
        step
    }

    fn near(got: &[f32], want: &[f32]) {
        let apart = got.iter().zip(want).map(|(got, want)| (got - want).abs()).fold(0.0, f32::max);
        assert!(got.len() == want.len() && apart < 1e-5, "{got:?} {want:?}");
    }

    #[test]
    fn a_ddpg_step_matches_the_formulas() {
        let mut step = step(&linear(1, PolicyRule::ACME), &[[0.5, -0.4, 0.2]]);
        let found = step.improve(&transition()).unwrap();
        let action = (-0.3_f32 + 0.1).tanh();
        let target = 1.0 + 0.9 * (-0.5 - 0.4 * action + 0.2);
        let error = (0.5 * 2.0 - 0.4 * 0.5 + 0.2) - target;
        near(&[found[0].1], &[0.5 * error * error]);
        near(&step.critics.gradient, &[2.0 * error, 0.5 * error, error]);
        // The critic's slope with respect to the action at the next observation, through tanh; −Q should fall.
        let slope = 0.4 * (1.0 - action * action);
        near(&step.policy.gradient, &[-slope, slope]);
        near(&[found[1].1], &[-(-0.5 - 0.4 * action + 0.2)]);
        // Adam's first step has its full size, against the gradient; the targets are copied after it.
        near(step.policy.params.values(), &[0.4, 0.0]);
        near(step.acting().values(), &[0.4, 0.0]);
        near(step.target_critics.values(), step.critics.params.values());
    }

    #[test]
    fn the_action_gradient_is_clipped() {
        let bounded = Settings { max_action_gradient: Some(0.1), ..linear(1, PolicyRule::ACME) };
        let mut step = step(&bounded, &[[0.5, -0.4, 0.2]]);
        step.improve(&transition()).unwrap();
        let slope = 0.1 * (1.0 - (-0.2_f32).tanh().powi(2));
        near(&step.policy.gradient, &[-slope, slope]);
    }

    #[test]
    fn td3_uses_the_lesser_value_and_delays_policy_updates() {
        let rule = PolicyRule { at_next: false, acts_by_target: false, period: 2, ..PolicyRule::ACME };
        let settings = Settings { target_update: TargetUpdate::Move { tau: 0.5 }, ..linear(2, rule) };
        let mut step = step(&settings, &[[0.5, -0.4, 0.2], [0.1, 0.2, 0.0]]);
        step.improve(&transition()).unwrap();
        let action = (-0.2_f32).tanh();
        let target = 1.0 + 0.9 * (-0.5 - 0.4 * action + 0.2_f32).min(-0.1 + 0.2 * action);
        let errors = [1.0 - 0.2 + 0.2 - target, 0.2 + 0.1 - target];
        let by = errors.map(|error| [2.0 * error, 0.5 * error, error]);
        near(&step.critics.gradient, &by.concat());
        near(step.policy.params.values(), &[0.3, 0.1]);
        step.improve(&transition()).unwrap();
        // The gradient at the first observation comes from the first critic. By then, −0.4 has changed twice, but the
        // gradient uses its value after one step.
        let moved = -0.4 - 0.1 * errors[0].signum();
        let slope = -moved * (1.0 - 0.7_f32.tanh().powi(2));
        near(&step.policy.gradient, &[2.0 * slope, slope]);
    }

    #[test]
    fn a_restored_td3_reports_the_loss_of_the_latest_policy_step() {
        let rule = PolicyRule { at_next: false, acts_by_target: false, period: 2, ..PolicyRule::ACME };
        let create = || step(&linear(2, rule), &[[0.5, -0.4, 0.2], [0.1, 0.2, 0.0]]);
        let (mut saved, mut restored) = (create(), create());
        for _ in 0..2 {
            saved.improve(&transition()).unwrap();
        }
        let state = crate::saved::save(&mut saved.parts());
        crate::saved::restore(DpgStep::WHAT, &mut restored.parts(), &state).unwrap();
        let losses = [saved, restored].map(|mut step| step.improve(&transition()).unwrap()[1].1);
        assert!(losses[0] != 0.0 && losses[0] == losses[1], "{losses:?}");
    }

    #[test]
    fn target_noise_is_clipped() {
        let rule = PolicyRule { target_noise: [50.0, 0.25], ..PolicyRule::ACME };
        let mut step = step(&linear(1, rule), &[[0.0, 1.0, 0.0]]);
        step.compute_targets(&transition());
        let apart = (step.memory.targets[0] - 1.0) / 0.9 - (-0.2_f32).tanh();
        assert!((apart.abs() - 0.25).abs() < 1e-5, "{apart}");
    }

    #[test]
    fn d4pg_climbs_the_mean_of_a_distribution() {
        let returns = categorical([-1.0, 1.0], 3);
        let mut step =
            DpgStep::new(&Settings { returns, ..linear(1, PolicyRule::ACME) }, &spec(), Key::from_seed(1));
        let step = step.as_mut().unwrap();
        step.policy.params.values_mut().copy_from_slice(&[0.3, 0.1]);
        // The critic's outputs are logits, and a larger action puts more weight on the upper atom.
        let critic = [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0];
        step.critics.params.values_mut().copy_from_slice(&critic);
        let loss = step.policy_gradient(&transition());
        let mean = |action: f32| (action.exp() - 1.0) / (action.exp() + 2.0);
        let action = (-0.2_f32).tanh();
        near(&[loss], &[-mean(action)]);
        let slope = (mean(action + 1e-2) - mean(action - 1e-2)) / 2e-2 * (1.0 - action * action);
        let apart = (step.policy.gradient[1] + slope).abs();
        assert!(apart < 1e-4, "{:?} {slope}", step.policy.gradient);
    }

    #[test]
    fn imitation_adds_its_gradient_to_that_of_the_value() {
        let mut by = [1.0, -1.0];
        assert_eq!(imitate(&[0.5, 0.0], &[0.0, 1.0], 2.0, &mut by), 0.625);
        assert_eq!(by, [2.5, -3.0]);
    }
}
