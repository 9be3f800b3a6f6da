//! The plan of MPO and DMPO, and its gradient step.

use relive_env::EnvironmentSpec;
use relive_flow::Flow;
use relive_nn::heads::NormalHead;
use relive_nn::losses::{MpoBatch, MpoDuals, MpoGradients, MpoMetrics, Normals};
use relive_nn::{Key, Layout, Network, Params, Scratch, Stream};
use relive_rl::Result;
use relive_rl::learners::Peers;
use relive_rl::plan::{Crew, Learn, Progress, Transitions};

use super::settings::Settings;
use crate::continuous::{
    ActionValues, Critics, Improve, Role, SampledOutputs, Spaces, StepMetrics, Trained, TransitionLearner,
    checked, draw, join, join_many,
};
use crate::misfit::Misfits;
use crate::saved::Saved;
use crate::together;

/// A lower bound on the raw dual variables, as in Acme.
const MIN_RAW_DUAL: f32 = -18.0;

impl Settings {
    /// Returns the plan, in which workers write to the table and the learner learns from it.
    pub(super) fn plan(&self, crew: &Crew) -> Result<Flow<Progress>> {
        let (step, discount) =
            (MpoStep::new(self, crew.spec(), crew.learner_key())?, self.off_policy.discount);
        let learner = TransitionLearner::new(crew, discount, self.config.normalize_observations, step)?;
        let learning = self.off_policy.batches(crew)?.learn(crew.learner(learner)?);
        self.off_policy.plan(crew, learning)
    }
}

/// The gradient step of MPO.
#[derive(Debug)]
pub(super) struct MpoStep {
    settings: Settings,
    head: NormalHead,
    policy: Trained<Network>,
    critics: Trained<Critics>,
    duals: Trained<()>,
    target_policy: Params,
    target_critics: Params,
    stream: Stream,
    sampled: SampledActions,
    memory: Buffers,
}

/// Actions of the target policy in the next states, `[samples, batch, dimensions]`, and their values.
#[derive(Debug, Default)]
struct SampledActions {
    means: Vec<f32>,
    stddevs: Vec<f32>,
    actions: Vec<f32>,
    outputs_of_samples: SampledOutputs,
}

/// Reused memory.
#[derive(Debug, Default)]
struct Buffers {
    scratch: Scratch,
    valuing: ActionValues,
    clipped: Vec<f32>,
    rows: Vec<f32>,
    targets: Vec<f32>,
    means: Vec<f32>,
    stddevs: Vec<f32>,
    by_means: Vec<f32>,
    by_stddevs: Vec<f32>,
    misfits: Misfits,
}

impl MpoStep {
    pub(super) fn new(settings: &Settings, spec: &EnvironmentSpec, key: Key) -> Result<MpoStep> {
        let spaces = Spaces::of(spec)?;
        let dimensions = spaces.dimensions();
        let policy = settings.policy_layers().policy(&spaces, 2 * dimensions, Role::NearZero, key)?;
        let shape = (1, settings.returns, Role::NearZero);
        let critics = Critics::new(&spaces, settings.critic_layers(), shape, key)?;
        let mut layout = Layout::new();
        MpoDuals::new(&mut layout, "duals", dimensions);
        let bound = Some(settings.config.max_gradient_norm);
        let policy = Trained::new(policy, settings.config.policy_learning_rate).bounded(bound);
        let critics = Trained::new(critics, settings.config.critic_learning_rate).bounded(bound);
        Ok(MpoStep {
            settings: settings.clone(),
            head: settings.head(dimensions),
            target_policy: policy.params.clone(),
            target_critics: critics.params.clone(),
            policy,
            critics,
            duals: Trained::new(((), layout.init(key)), settings.config.dual_learning_rate),
            stream: key.child("actions").stream(),
            sampled: SampledActions::default(),
            memory: Buffers::default(),
        })
    }

    /// Samples actions of the target policy in the next states, and computes their values with the target critic. Both
    /// the critic's targets and the improvement of the policy use them.
    fn sample(&mut self, batch: &Transitions) {
        let SampledActions { means, stddevs, actions, outputs_of_samples } = &mut self.sampled;
        let Buffers { scratch, valuing, clipped, rows, targets, misfits, .. } = &mut self.memory;
        let outputs = self.policy.networks.infer(&self.target_policy, &batch.next_observations, scratch);
        self.head.distributions(outputs, means, stddevs);
        let samples = self.settings.config.samples;
        actions.clear();
        for _ in 0..samples {
            let numbers = means.iter().zip(stddevs.iter());
            actions.extend(numbers.map(|(mean, stddev)| mean + stddev * draw(&mut self.stream)));
        }
        clipped.clear();
        clipped.extend(actions.iter().map(|action| action.clamp(-1.0, 1.0)));
        join_many(&batch.next_observations, clipped, (self.head.dimensions, samples), rows);
        let (critics, returns) = (&self.critics.networks, self.settings.returns);
        let outputs = valuing.outputs(critics, &self.target_critics, rows);
        returns.sampled(outputs, samples, outputs_of_samples);
        let earned = (&batch.rewards[..], &batch.discounts[..]);
        returns.tell_range(misfits, earned, &outputs_of_samples.averaged);
        returns.targets(earned, &outputs_of_samples.averaged, targets);
    }

    /// Returns the loss of the policy and the dual variables, and its gradient.
    fn improve_policy(&mut self, batch: &Transitions) -> MpoMetrics {
        let SampledActions { means, stddevs, actions, outputs_of_samples } = &self.sampled;
        let target = Normals { means, stddevs };
        let sampled =
            MpoBatch { actions, q: &outputs_of_samples.values, samples: self.settings.config.samples };
        let Buffers { means, stddevs, by_means, by_stddevs, .. } = &mut self.memory;
        let (head, bounds, duals) = (self.head, self.settings.bounds(), &mut self.duals);
        let Trained { networks: policy, params, gradient, .. } = &mut self.policy;
        policy.gradient_into(params, &batch.next_observations, gradient, |outputs, by_outputs| {
            head.distributions(outputs, means, stddevs);
            by_means.resize(means.len(), 0.0);
            by_stddevs.resize(means.len(), 0.0);
            let mut into = MpoGradients { by_means, by_stddevs, by_duals: &mut duals.gradient };
            let online = Normals { means, stddevs };
            let found = bounds.gradient(duals.params.values(), online, target, sampled, &mut into);
            head.pull_back(outputs, by_means, by_stddevs, by_outputs);
            found
        })
    }
}

impl Improve for MpoStep {
    const WHAT: &'static str = "a learner of MPO";

    fn improve(&mut self, batch: &Transitions) -> Result<StepMetrics> {
        self.sample(batch);
        let Buffers { rows, targets, .. } = &mut self.memory;
        join(&batch.observations, &batch.actions, self.head.dimensions, rows);
        let Trained { networks, params, gradient, .. } = &mut self.critics;
        let critic_loss = networks.loss(params, rows, targets, gradient);
        let found = self.improve_policy(batch);
        let norms = [self.critics.step()?, self.policy.step()?, self.duals.step()?];
        for raw in self.duals.params.values_mut() {
            *raw = raw.max(MIN_RAW_DUAL);
        }
        let step = self.policy.optimizer.steps();
        let [of_policy, of_critics] = self.settings.target_updates();
        of_policy.follow(&mut self.target_policy, &self.policy.params, step);
        of_critics.follow(&mut self.target_critics, &self.critics.params, step);
        let numbers = vec![
            ("critic_loss", critic_loss),
            ("policy_loss", found.loss),
            ("kl_mean_rel", found.kl_mean_rel),
            ("kl_stddev_rel", found.kl_stddev_rel),
            ("temperature", found.temperature),
        ];
        checked(step, &norms, numbers)
    }

    fn share(&mut self, peers: &Peers) {
        self.policy.share(peers);
        self.critics.share(peers);
        self.duals.share(peers);
        together::separate_stream(&mut self.stream, peers);
    }

    fn acting(&self) -> &Params {
        &self.target_policy
    }

    fn learned(&self) -> &Params {
        &self.policy.params
    }

    fn parts(&mut self) -> Vec<Saved<'_>> {
        let Self { policy, critics, duals, target_policy, target_critics, stream, .. } = self;
        let mut parts =
            vec![Saved::Stream(stream), Saved::Params(target_policy), Saved::Params(target_critics)];
        parts.extend(policy.parts());
        parts.extend(critics.parts());
        parts.extend(duals.parts());
        parts
    }
}

#[cfg(test)]
mod tests {
    use relive_env::ArraySpec;
    use relive_tensor::{DType, Nest};

    use super::*;
    use crate::MpoConfig;

    #[test]
    fn an_mpo_step_matches_the_formulas() {
        let (hidden, critic_hidden) = (Vec::new(), Vec::new());
        let linear = MpoConfig { hidden, critic_hidden, samples: 4, ..MpoConfig::default() };
        let observations = ArraySpec::new("", DType::Float32, [1]);
        let actions = ArraySpec::new("", DType::Float32, [1]).bounded(-1.0, 1.0);
        let spec = EnvironmentSpec::new(Nest::Leaf(observations), Nest::Leaf(actions));
        let mut step = MpoStep::new(&linear.shared(), &spec, Key::from_seed(1)).unwrap();
        // The critic is 0.5·s + 2·a; the means start at about 0, and the standard deviations at about 0.7.
        step.critics.params.values_mut().copy_from_slice(&[0.5, 2.0, 0.0]);
        step.target_critics.copy_from(&step.critics.params);
        let mut batch = Transitions::new(&spec, 0.9).unwrap();
        (batch.observations, batch.actions) = (vec![2.0], vec![0.5]);
        (batch.rewards, batch.discounts, batch.next_observations) = (vec![1.0], vec![0.9], vec![-1.0]);
        let found = step.improve(&batch).unwrap();

        let SampledActions { means, stddevs, actions, outputs_of_samples } = &step.sampled;
        assert!(means[0].abs() < 0.1 && (stddevs[0] - 0.7).abs() < 0.1 && actions.len() == 4);
        let value = |action: &f32| -0.5 + 2.0 * action.clamp(-1.0, 1.0);
        let expected: Vec<f32> = actions.iter().map(value).collect();
        assert!(outputs_of_samples.values.iter().zip(&expected).all(|(got, want)| (got - want).abs() < 1e-5));
        let target = 1.0 + 0.9 * expected.iter().sum::<f32>() / 4.0;
        let error = (0.5 * 2.0 + 2.0 * 0.5) - target;
        assert!((found[0].1 - 0.5 * error * error).abs() < 1e-4, "{found:?} {error}");
        let by = [2.0 * error, 0.5 * error, error];
        assert!(step.critics.gradient.iter().zip(by).all(|(got, want)| (got - want).abs() < 1e-4));
        // The policy and the target policy are still equal, so only the fit contributes: its gradient with respect to
        // the mean is −Σ w·(a − μ)/σ².
        assert!(found[2].1.abs() < 1e-6 && found[3].1.abs() < 1e-4, "{found:?}");
        let softmax = |values: Vec<f32>| {
            let total: f32 = values.iter().map(|value| value.exp()).sum();
            values.into_iter().map(move |value| value.exp() / total)
        };
        let cost = |action: &f32| -(action - action.clamp(-1.0, 1.0)).abs() / 10.0;
        let by_value = softmax(expected.iter().map(|value| value / 10.0).collect());
        let by_cost = softmax(actions.iter().map(cost).collect());
        let weights = by_value.zip(by_cost).map(|(value, cost)| value + cost);
        let fitted = weights.zip(actions).map(|(weight, action)| weight * (action - means[0]));
        let slope = -fitted.sum::<f32>() / (stddevs[0] * stddevs[0]);
        // The gradient with respect to the bias of the mean.
        assert!((step.policy.gradient[2] - slope).abs() < 1e-3, "{:?} {slope}", step.policy.gradient);
        // The values differ by less than the bound permits, so the temperature falls.
        assert!(step.duals.gradient[0] > 0.0 && step.duals.params.values()[0] < 10.0);
    }
}
