//! IQL: learns the values of states without evaluating actions outside the table.

use relive_env::EnvironmentSpec;
use relive_flow::Flow;
use relive_nn::heads::NormalHead;
use relive_nn::{Key, Layout, Network, Params, Scratch};
use relive_rl::learners::Peers;
use relive_rl::plan::{Crew, Progress, Transitions};
use relive_rl::{Agent, Policy, PolicyContext, Result, settings_of};
use relive_table::TableConfig;

use super::regression::{Regression, head};
use super::replay::Recorded;
use crate::continuous::{
    ActionValues, Body, ContinuousPolicy, Critics, Drawing, Improve, Layers, Returns, Role, Spaces,
    StepMetrics, TargetUpdate, Trained, checked, join,
};
use crate::saved::Saved;
use crate::settings::{check, fraction, layers, positive, settings};

settings! {
    /// The settings of IQL (Kostrikov et al. 2022), for actions that are one bounded float32 array. The defaults are
    /// the paper's for locomotion. The agent does not act: a run takes learner steps on the contents of its table.
    ///
    /// The value of a state is the expectile τ of min q̄(s, a) over actions from the table (equation 5), and the target
    /// of the critics uses it (equation 6). The policy is fitted to actions weighted by exp(β·(min q̄ − v)), at most
    /// `max_weight` (equation 7). Deviations from the paper: all gradients of a batch use the parameters before the step,
    /// and the step size of the policy stays the same, where the authors' falls to 0 over the run.
    pub struct IqlConfig {
        /// The number of transitions in a batch.
        pub batch_size: usize = 256,
        /// The agent's discount γ.
        pub discount: f32 = 0.99,
        /// The step size of Adam, for all networks.
        pub learning_rate: f32 = 3e-4,
        /// The fraction by which the target critics move toward the critics after each batch, τ.
        pub tau: f32 = 0.005,
        /// The expectile τ: 0.5 is the mean, 1 would be the maximum.
        pub expectile: f32 = 0.7,
        /// How strongly the weight of an action grows with its advantage, β.
        pub inverse_temperature: f32 = 3.0,
        /// The upper bound on the weight of an action.
        pub max_weight: f32 = 100.0,
        /// The policy's standard deviation in all states; if unset, it is learned for each state. An action's weight in
        /// the loss is the inverse square of the deviation of its state, so with learned deviations, poorly fitted
        /// actions lose weight. The paper also uses one deviation for all states.
        pub stddev: Option<f32> = None,
        /// Whether observations are normalized to mean 0 and standard deviation 1.
        pub normalize_observations: bool = false,
        /// The sizes of the hidden layers of each network.
        pub hidden: Vec<usize> = vec![256, 256],
    }
}

impl IqlConfig {
    /// Returns the settings for a named environment: tuned settings if there are any, otherwise the defaults.
    #[must_use]
    pub fn for_environment(name: &str) -> IqlConfig {
        match name {
            "Pendulum-v1" => IqlConfig {
                batch_size: 128,
                discount: 0.95,
                inverse_temperature: 0.3,
                expectile: 0.9,
                stddev: Some(0.3),
                normalize_observations: true,
                hidden: vec![64, 64],
                ..IqlConfig::default()
            },
            _ => IqlConfig::default(),
        }
    }

    fn networks(&self) -> Layers<'_> {
        Layers { body: Body::Relu, hidden: &self.hidden }
    }

    fn head(&self, dimensions: usize) -> NormalHead {
        let learned = head(dimensions);
        match self.stddev {
            Some(stddev) => NormalHead { init_scale: stddev, fixed_scale: true, ..learned },
            None => learned,
        }
    }

    fn recorded(&self) -> Recorded {
        Recorded { batch_size: self.batch_size, discount: self.discount }
    }
}

impl Agent for IqlConfig {
    fn name(&self) -> &'static str {
        "iql"
    }

    fn settings(&self) -> Vec<(String, String)> {
        settings_of(self)
    }

    fn validate(&self) -> Result<()> {
        self.recorded().validate()?;
        layers(&self.hidden)?;
        positive("learning_rate", self.learning_rate)?;
        fraction("tau", self.tau)?;
        let is_expectile = self.expectile > 0.0 && self.expectile < 1.0;
        check("expectile", self.expectile, is_expectile, "above 0 and less than 1")?;
        positive("inverse_temperature", self.inverse_temperature)?;
        positive("max_weight", self.max_weight)?;
        self.stddev.map_or(Ok(()), |stddev| positive("stddev", stddev))
    }

    fn tables(&self) -> Result<Vec<TableConfig>> {
        Ok(vec![self.recorded().table()?])
    }

    fn policy(&self, context: &PolicyContext<'_>) -> Result<Box<dyn Policy>> {
        let exploration = (self.normalize_observations, 0.0);
        let drawing = |dimensions| Drawing::Normal(self.head(dimensions));
        ContinuousPolicy::create(context, self.networks(), (2, Role::Linear), drawing, exploration)
    }

    fn plan(&self, crew: &Crew) -> Result<Flow<Progress>> {
        let step = IqlStep::new(self, crew.spec(), crew.learner_key())?;
        self.recorded().plan(crew, self.normalize_observations, step)
    }
}

/// The gradient step of IQL.
#[derive(Debug)]
struct IqlStep {
    config: IqlConfig,
    dimensions: usize,
    policy: Trained<Network>,
    critics: Trained<Critics>,
    value: Trained<Network>,
    target: Params,
    memory: Buffers,
}

/// Reused memory.
#[derive(Debug, Default)]
struct Buffers {
    valuing: ActionValues,
    scratch: Scratch,
    regression: Regression,
    rows: Vec<f32>,
    targets: Vec<f32>,
    weights: Vec<f32>,
}

impl IqlStep {
    fn new(config: &IqlConfig, spec: &EnvironmentSpec, key: Key) -> Result<IqlStep> {
        let (spaces, rate, plan) = (Spaces::of(spec)?, config.learning_rate, config.networks());
        let dimensions = spaces.dimensions();
        let critics = Critics::new(&spaces, plan, (2, Returns::Value, Role::Linear), key)?;
        let mut layout = Layout::new();
        let value = plan.network(&mut layout, "value", (spaces.width(), 1), Role::Linear)?;
        Ok(IqlStep {
            config: config.clone(),
            dimensions,
            policy: Trained::new(plan.policy(&spaces, 2 * dimensions, Role::Linear, key)?, rate),
            target: critics.1.clone(),
            critics: Trained::new(critics, rate),
            value: Trained::new((value, layout.init(key.child("value"))), rate),
            memory: Buffers::default(),
        })
    }

    /// Moves the values of states toward the values of the actions taken there, more strongly toward higher values.
    /// Actions whose values exceed their state's value get more weight for the policy.
    fn value_states(&mut self, batch: &Transitions) -> f32 {
        let IqlConfig { expectile, inverse_temperature, max_weight, .. } = self.config;
        let Buffers { valuing, weights, rows, .. } = &mut self.memory;
        let least = valuing.least(&self.critics.networks, &self.target, rows, 0..2);
        let Trained { networks: value, params, gradient, .. } = &mut self.value;
        value.gradient_into(params, &batch.observations, gradient, |values, by_values| {
            weights.clear();
            let better = least.iter().zip(values).map(|(least, value)| least - value);
            weights.extend(better.map(|better| (inverse_temperature * better).exp().min(max_weight)));
            expectile_loss(expectile, values, least, by_values)
        })
    }
}

/// Computes the mean of |τ − 1[u < 0]|·u² with u = target − value, and its gradient with respect to the values
/// (Kostrikov et al. 2022, equation 5).
#[expect(clippy::cast_precision_loss, reason = "rows of a batch")]
fn expectile_loss(expectile: f32, values: &[f32], targets: &[f32], by_values: &mut [f32]) -> f32 {
    let (mut loss, count) = (0.0, values.len().max(1) as f32);
    for ((value, target), by) in values.iter().zip(targets).zip(by_values) {
        let apart = target - value;
        let weight = if apart < 0.0 { 1.0 - expectile } else { expectile };
        loss += weight * apart * apart / count;
        *by = -2.0 * weight * apart / count;
    }
    loss
}

impl Improve for IqlStep {
    const WHAT: &'static str = "a learner of IQL";

    fn improve(&mut self, batch: &Transitions) -> Result<StepMetrics> {
        join(&batch.observations, &batch.actions, self.dimensions, &mut self.memory.rows);
        let value_loss = self.value_states(batch);
        let Buffers { scratch, regression, rows, targets, weights, .. } = &mut self.memory;
        let next = self.value.networks.infer(&self.value.params, &batch.next_observations, scratch);
        Returns::Value.targets((&batch.rewards, &batch.discounts), next, targets);
        let Trained { networks, params, gradient, .. } = &mut self.critics;
        let critic_loss = networks.loss(params, rows, targets, gradient);
        let Trained { networks, params, gradient, .. } = &mut self.policy;
        let head = self.config.head(self.dimensions);
        let policy_loss = networks.gradient_into(params, &batch.observations, gradient, |outputs, by| {
            regression.loss(head, outputs, (&batch.actions, weights), by)
        });
        let norms = [self.value.step()?, self.critics.step()?, self.policy.step()?];
        let (step, update) = (self.policy.optimizer.steps(), TargetUpdate::Move { tau: self.config.tau });
        update.follow(&mut self.target, &self.critics.params, step);
        let losses = [("value_loss", value_loss), ("critic_loss", critic_loss), ("policy_loss", policy_loss)];
        checked(step, &norms, losses.into())
    }

    fn share(&mut self, peers: &Peers) {
        self.policy.share(peers);
        self.critics.share(peers);
        self.value.share(peers);
    }

    fn acting(&self) -> &Params {
        &self.policy.params
    }

    fn parts(&mut self) -> Vec<Saved<'_>> {
        let Self { policy, critics, value, target, .. } = self;
        let mut parts = vec![Saved::Params(target)];
        parts.extend(policy.parts());
        parts.extend(critics.parts());
        parts.extend(value.parts());
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expectile_loss_favors_higher_values() {
        let mut by = [0.0; 2];
        let loss = expectile_loss(0.75, &[0.0, 2.0], &[2.0, 0.0], &mut by);
        assert_eq!((loss, by), (2.0, [-1.5, 0.5]));
    }
}
