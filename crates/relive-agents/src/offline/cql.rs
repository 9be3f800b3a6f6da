//! CQL: critics that do not overestimate actions outside the table.

use relive_env::EnvironmentSpec;
use relive_flow::Flow;
use relive_nn::{Key, Network, Params, Scratch, Stream};
use relive_rl::learners::Peers;
use relive_rl::plan::{Crew, Progress, Transitions};
use relive_rl::{Agent, Policy, PolicyContext, Result, settings_of};
use relive_table::TableConfig;

use super::replay::Recorded;
use crate::continuous::{
    ActionGradients, ActionValues, Body, ContinuousPolicy, CriticReduction, Critics, Drawing, Improve,
    Layers, Returns, Role, Spaces, StepMetrics, TanhNormal, TargetUpdate, Trained, checked, draw, join,
    join_many,
};
use crate::saved::Saved;
use crate::settings::{check, fraction, layers, not_negative, positive, settings};
use crate::together;

/// The maximum number of actions of each kind that are sampled in a state.
const MAX_SAMPLES: usize = 1_024;

settings! {
    /// The settings of CQL (Kumar et al. 2020), for actions that are one bounded float32 array. The defaults are taken
    /// from Acme's agent. The agent does not act: a run takes learner steps on the contents of its table.
    ///
    /// Two critics learn with ½(q(s, a) − (r + γ·min q̄(s′, a′)))² and c·(ln mean exp(q(s, aᵢ) − ln μ(aᵢ)) − q(s, a)),
    /// where the aᵢ are uniform, from the policy in s, and from the policy in s′ (CQL(H), equation 4, sampled as in
    /// appendix F). The policy, a normal distribution squashed by tanh, imitates the recorded actions for
    /// `imitation_steps` steps, then ascends min q plus its entropy at a fixed temperature. As in Acme, targets have no
    /// entropy term and c is fixed.
    pub struct CqlConfig {
        /// The number of transitions in a batch.
        pub batch_size: usize = 256,
        /// The agent's discount γ.
        pub discount: f32 = 0.99,
        /// The step size of Adam for the policy.
        pub policy_learning_rate: f32 = 3e-5,
        /// The step size of Adam for the critics.
        pub critic_learning_rate: f32 = 3e-4,
        /// The fraction by which the target critics move toward the critics after each batch, τ.
        pub tau: f32 = 0.005,
        /// The weight of the policy's entropy, α. With 0, the policy collapses to a single action, with a density so
        /// high that the penalty no longer limits its values.
        pub temperature: f32 = 0.0,
        /// The weight c of the penalty on sampled actions with higher values than the table's actions.
        pub conservatism: f32 = 5.0,
        /// The number of actions of each of three kinds that are sampled in each state.
        pub samples: usize = 10,
        /// The number of initial learner steps during which the policy imitates the recorded actions.
        pub imitation_steps: u64 = 50_000,
        /// Whether observations are normalized to mean 0 and standard deviation 1.
        pub normalize_observations: bool = false,
        /// The sizes of the hidden layers of each network.
        pub hidden: Vec<usize> = vec![256, 256],
    }
}

impl CqlConfig {
    /// Returns the settings for a named environment: tuned settings if there are any, otherwise the defaults.
    #[must_use]
    pub fn for_environment(name: &str) -> CqlConfig {
        match name {
            "Pendulum-v1" => CqlConfig {
                batch_size: 128,
                discount: 0.95,
                policy_learning_rate: 3e-4,
                imitation_steps: 1_000,
                temperature: 0.3,
                normalize_observations: true,
                hidden: vec![64, 64],
                ..CqlConfig::default()
            },
            _ => CqlConfig::default(),
        }
    }

    fn networks(&self) -> Layers<'_> {
        Layers { body: Body::Relu, hidden: &self.hidden }
    }

    fn recorded(&self) -> Recorded {
        Recorded { batch_size: self.batch_size, discount: self.discount }
    }
}

impl Agent for CqlConfig {
    fn name(&self) -> &'static str {
        "cql"
    }

    fn settings(&self) -> Vec<(String, String)> {
        settings_of(self)
    }

    fn validate(&self) -> Result<()> {
        self.recorded().validate()?;
        layers(&self.hidden)?;
        positive("policy_learning_rate", self.policy_learning_rate)?;
        positive("critic_learning_rate", self.critic_learning_rate)?;
        fraction("tau", self.tau)?;
        not_negative("temperature", self.temperature)?;
        not_negative("conservatism", self.conservatism)?;
        check("samples", self.samples, (1..=MAX_SAMPLES).contains(&self.samples), "from 1 to 1024")
    }

    fn tables(&self) -> Result<Vec<TableConfig>> {
        Ok(vec![self.recorded().table()?])
    }

    fn policy(&self, context: &PolicyContext<'_>) -> Result<Box<dyn Policy>> {
        let exploration = (self.normalize_observations, 0.0);
        let drawing = |_| Drawing::TanhNormal;
        ContinuousPolicy::create(context, self.networks(), (2, Role::Linear), drawing, exploration)
    }

    fn plan(&self, crew: &Crew) -> Result<Flow<Progress>> {
        let step = CqlStep::new(self, crew.spec(), crew.learner_key())?;
        self.recorded().plan(crew, self.normalize_observations, step)
    }
}

/// The gradient step of CQL.
#[derive(Debug)]
struct CqlStep {
    config: CqlConfig,
    dimensions: usize,
    policy: Trained<Network>,
    critics: Trained<Critics>,
    target: Params,
    stream: Stream,
    memory: Buffers,
}

/// Reused memory.
#[derive(Debug, Default)]
struct Buffers {
    valuing: ActionValues,
    climbing: ActionGradients,
    scratch: Scratch,
    drawn: TanhNormal,
    samples: Samples,
    rows: Vec<f32>,
    targets: Vec<f32>,
}

/// Actions in the states of a batch, `[samples, batch, dimensions]`, and their log-densities, `[samples, batch]`.
#[derive(Debug, Default)]
struct Samples {
    actions: Vec<f32>,
    log_densities: Vec<f32>,
    rows: Vec<f32>,
}

impl CqlStep {
    fn new(config: &CqlConfig, spec: &EnvironmentSpec, key: Key) -> Result<CqlStep> {
        let (spaces, plan) = (Spaces::of(spec)?, config.networks());
        let dimensions = spaces.dimensions();
        let critics = Critics::new(&spaces, plan, (2, Returns::Value, Role::Linear), key)?;
        let policy = plan.policy(&spaces, 2 * dimensions, Role::Linear, key)?;
        Ok(CqlStep {
            config: config.clone(),
            dimensions,
            policy: Trained::new(policy, config.policy_learning_rate),
            target: critics.1.clone(),
            critics: Trained::new(critics, config.critic_learning_rate),
            stream: key.child("actions").stream(),
            memory: Buffers::default(),
        })
    }

    /// Computes the targets of the critics: r + γ·min q̄(s′, a′).
    fn compute_targets(&mut self, batch: &Transitions) {
        let Buffers { valuing, scratch, drawn, rows, targets, .. } = &mut self.memory;
        let (policy, stream) = (&self.policy, &mut self.stream);
        let outputs = policy.networks.infer(&policy.params, &batch.next_observations, scratch);
        drawn.draw(outputs, self.dimensions, || draw(stream));
        join(&batch.next_observations, &drawn.actions, self.dimensions, rows);
        let least = valuing.least(&self.critics.networks, &self.target, rows, 0..2);
        Returns::Value.targets((&batch.rewards, &batch.discounts), least, targets);
    }

    /// Samples actions for the states of the batch: uniformly, from the policy in these states, and from the policy in
    /// the next states.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "actions are float32 and have few elements"
    )]
    fn sample(&mut self, batch: &Transitions) {
        let Buffers { scratch, drawn, samples, .. } = &mut self.memory;
        let (policy, stream, each) = (&self.policy, &mut self.stream, self.config.samples);
        let numbers = batch.actions.len();
        samples.actions.clear();
        samples.log_densities.clear();
        samples.actions.extend((0..each * numbers).map(|_| 2.0 * stream.uniform() as f32 - 1.0));
        let of_any = -(self.dimensions as f32) * std::f32::consts::LN_2;
        samples.log_densities.resize(each * batch.rewards.len(), of_any);
        for observations in [&batch.observations, &batch.next_observations] {
            let outputs = policy.networks.infer(&policy.params, observations, scratch);
            for _ in 0..each {
                drawn.draw(outputs, self.dimensions, || draw(stream));
                samples.actions.extend_from_slice(&drawn.actions);
                samples.log_densities.extend_from_slice(&drawn.log_probabilities);
            }
        }
        let shape = (self.dimensions, 3 * each);
        join_many(&batch.observations, &samples.actions, shape, &mut samples.rows);
    }

    /// Computes the loss of both critics and its gradient. The loss consists of their errors, and of the excess of the
    /// sampled actions' values over the values of the table's actions.
    fn criticize(&mut self, batch: &Transitions) -> f32 {
        let Buffers { samples, rows, targets, .. } = &mut self.memory;
        join(&batch.observations, &batch.actions, self.dimensions, rows);
        rows.extend_from_slice(&samples.rows);
        let conservatism = self.config.conservatism;
        let rows = &rows[..];
        let Trained { networks, params, gradient, .. } = &mut self.critics;
        let loss = |critic: &Network| {
            critic.gradient_into(params, rows, gradient, |values, by| {
                let (taken, sampled) = values.split_at(targets.len());
                let (by_taken, by_sampled) = by.split_at_mut(targets.len());
                let error = Returns::Value.loss(taken, targets, by_taken);
                let apart = conservative_loss(
                    (taken, sampled),
                    &samples.log_densities,
                    conservatism,
                    by_taken,
                    by_sampled,
                );
                error + apart
            })
        };
        networks.networks.iter().map(loss).sum()
    }

    /// Returns the loss of the policy and its gradient: the policy first imitates, then ascends the lower value.
    #[expect(clippy::cast_precision_loss, reason = "rows of a batch")]
    fn improve_policy(&mut self, batch: &Transitions) -> f32 {
        let Buffers { climbing, drawn, rows, .. } = &mut self.memory;
        let (critics, dimensions, stream) = (&self.critics, self.dimensions, &mut self.stream);
        let CqlConfig { temperature, imitation_steps, .. } = self.config;
        let imitates = self.policy.optimizer.steps() < imitation_steps;
        let Trained { networks: policy, params, gradient, .. } = &mut self.policy;
        policy.gradient_into(params, &batch.observations, gradient, |outputs, by_outputs| {
            if imitates {
                return TanhNormal::imitate(outputs, &batch.actions, dimensions, by_outputs);
            }
            drawn.draw(outputs, dimensions, || draw(stream));
            join(&batch.observations, &drawn.actions, dimensions, rows);
            let place = (&rows[..], dimensions);
            let loss = climbing.find(&critics.networks, &critics.params, place, CriticReduction::Least);
            drawn.pull_back(outputs, &climbing.by_actions, temperature, by_outputs);
            let entropy = drawn.log_probabilities.iter().sum::<f32>() / batch.rewards.len() as f32;
            loss + temperature * entropy
        })
    }
}

/// Computes c·mean(ln mean exp(q(s, aᵢ) − ln μ(aᵢ)) − q(s, a)) over a batch (Kumar et al. 2020, equation 4 and appendix
/// F). Writes its gradient with respect to the values of sampled actions, and adds to the gradient with respect to the
/// values of actions taken.
#[expect(clippy::cast_precision_loss, reason = "rows of a batch")]
fn conservative_loss(
    (taken, sampled): (&[f32], &[f32]),
    log_densities: &[f32],
    conservatism: f32,
    by_taken: &mut [f32],
    by_sampled: &mut [f32],
) -> f32 {
    let batch = taken.len();
    let samples = sampled.len() / batch.max(1);
    let weight = conservatism / batch.max(1) as f32;
    let mut loss = 0.0;
    for row in 0..batch {
        let places = || (row..sampled.len()).step_by(batch);
        let of = |place: usize| sampled[place] - log_densities[place];
        let most = places().map(of).fold(f32::NEG_INFINITY, f32::max);
        let total: f32 = places().map(|place| (of(place) - most).exp()).sum();
        loss += weight * (most + total.ln() - (samples as f32).ln() - taken[row]);
        by_taken[row] -= weight;
        places().for_each(|place| by_sampled[place] = weight * (of(place) - most).exp() / total);
    }
    loss
}

impl Improve for CqlStep {
    const WHAT: &'static str = "a learner of CQL";

    fn improve(&mut self, batch: &Transitions) -> Result<StepMetrics> {
        self.compute_targets(batch);
        self.sample(batch);
        let critic_loss = self.criticize(batch);
        let policy_loss = self.improve_policy(batch);
        let norms = [self.critics.step()?, self.policy.step()?];
        let (step, update) = (self.policy.optimizer.steps(), TargetUpdate::Move { tau: self.config.tau });
        update.follow(&mut self.target, &self.critics.params, step);
        checked(step, &norms, vec![("critic_loss", critic_loss), ("policy_loss", policy_loss)])
    }

    fn share(&mut self, peers: &Peers) {
        self.policy.share(peers);
        self.critics.share(peers);
        together::separate_stream(&mut self.stream, peers);
    }

    fn acting(&self) -> &Params {
        &self.policy.params
    }

    fn parts(&mut self) -> Vec<Saved<'_>> {
        let Self { policy, critics, target, stream, .. } = self;
        let mut parts = vec![Saved::Stream(stream), Saved::Params(target)];
        parts.extend(policy.parts());
        parts.extend(critics.parts());
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cql_lowers_the_values_of_actions_not_taken() {
        let (mut by_taken, mut by_sampled) = ([0.0; 2], [0.0; 4]);
        // Two samples for each of two states, with a density of ½ everywhere.
        let (taken, sampled, densities) = ([1.0, 0.0], [2.0, 0.5, 2.0, 0.5], [-2.0_f32.ln(); 4]);
        let loss = conservative_loss((&taken, &sampled), &densities, 4.0, &mut by_taken, &mut by_sampled);
        let expected = 2.0 * ((2.0 + 2.0_f32.ln() - 1.0) + (0.5 + 2.0_f32.ln()));
        assert!((loss - expected).abs() < 1e-5, "{loss} {expected}");
        assert_eq!(by_taken, [-2.0; 2]);
        assert!(by_sampled.iter().all(|by| (by - 1.0).abs() < 1e-6), "{by_sampled:?}");
    }
}
