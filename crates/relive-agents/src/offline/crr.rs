//! CRR: the policy is fitted to actions from the table that are better than the policy's own.

use relive_env::EnvironmentSpec;
use relive_flow::Flow;
use relive_nn::heads::NormalHead;
use relive_nn::{Key, Network, Params, Scratch, Stream};
use relive_rl::learners::Peers;
use relive_rl::plan::{Crew, Progress, Transitions};
use relive_rl::{Agent, Policy, PolicyContext, Result, settings_of};
use relive_table::TableConfig;
use serde::{Deserialize, Serialize};

use super::regression::{Regression, head};
use super::replay::Recorded;
use crate::continuous::{
    ActionValues, Body, ContinuousPolicy, Critics, Drawing, Improve, Layers, Returns, Role, Spaces,
    StepMetrics, TargetUpdate, Trained, checked, draw, join, join_many,
};
use crate::saved::Saved;
use crate::settings::{check, layers, positive, settings};
use crate::together;

/// The maximum number of actions with which an action is compared.
const MAX_SAMPLES: usize = 1_024;

settings! {
    /// The settings of CRR (Wang et al. 2020), for actions that are one bounded float32 array. The defaults are taken
    /// from Acme's agent. The agent does not act: a run takes learner steps on the contents of its table.
    ///
    /// The critic learns with ½(q(s, a) − (r + γ·q̄(s′, π̄(s′))))²; the policy learns with −w·ln π(a), where the weight
    /// w depends on A = q(s, a) − mean q(s, aᵢ), and the aᵢ are drawn from π (equations 2 to 4). As in Acme's newer
    /// agent but unlike in the paper, the critic outputs values and the networks are not recurrent.
    pub struct CrrConfig {
        /// The number of transitions in a batch.
        pub batch_size: usize = 256,
        /// The agent's discount γ.
        pub discount: f32 = 0.99,
        /// The step size of Adam, for the policy and the critic.
        pub learning_rate: f32 = 3e-4,
        /// The number of learner steps between copies to the target networks.
        pub target_update_period: u64 = 100,
        /// The number of actions of the policy with which an action is compared.
        pub samples: usize = 4,
        /// How an action is weighted by its advantage.
        pub weight: CrrWeight = CrrWeight::Exp,
        /// The temperature β of `exp`.
        pub temperature: f32 = 1.0,
        /// The upper bound on the weight of an action.
        pub max_weight: f32 = 20.0,
        /// Whether observations are normalized to mean 0 and standard deviation 1.
        pub normalize_observations: bool = false,
        /// The sizes of the hidden layers of each network.
        pub hidden: Vec<usize> = vec![256, 256],
    }
}

impl CrrConfig {
    /// Returns the settings for a named environment: tuned settings if there are any, otherwise the defaults.
    #[must_use]
    pub fn for_environment(name: &str) -> CrrConfig {
        match name {
            "Pendulum-v1" => {
                CrrConfig { discount: 0.95, normalize_observations: true, ..CrrConfig::default() }
            }
            _ => CrrConfig::default(),
        }
    }

    fn networks(&self) -> Layers<'_> {
        Layers { body: Body::Relu, hidden: &self.hidden }
    }

    fn recorded(&self) -> Recorded {
        Recorded { batch_size: self.batch_size, discount: self.discount }
    }
}

impl Agent for CrrConfig {
    fn name(&self) -> &'static str {
        "crr"
    }

    fn settings(&self) -> Vec<(String, String)> {
        settings_of(self)
    }

    fn validate(&self) -> Result<()> {
        self.recorded().validate()?;
        layers(&self.hidden)?;
        positive("learning_rate", self.learning_rate)?;
        let period = self.target_update_period;
        check("target_update_period", period, period >= 1, "at least 1")?;
        check("samples", self.samples, (1..=MAX_SAMPLES).contains(&self.samples), "from 1 to 1024")?;
        positive("temperature", self.temperature)?;
        positive("max_weight", self.max_weight)
    }

    fn tables(&self) -> Result<Vec<TableConfig>> {
        Ok(vec![self.recorded().table()?])
    }

    fn policy(&self, context: &PolicyContext<'_>) -> Result<Box<dyn Policy>> {
        let exploration = (self.normalize_observations, 0.0);
        let drawing = |dimensions| Drawing::Normal(head(dimensions));
        ContinuousPolicy::create(context, self.networks(), (2, Role::Linear), drawing, exploration)
    }

    fn plan(&self, crew: &Crew) -> Result<Flow<Progress>> {
        let step = CrrStep::new(self, crew.spec(), crew.learner_key())?;
        self.recorded().plan(crew, self.normalize_observations, step)
    }
}

/// The weight of a table's action for the policy, as a function of its advantage A over the policy's actions in the
/// same state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CrrWeight {
    /// exp(A/β), at most `max_weight`.
    #[default]
    Exp,
    /// 1 if A is positive, otherwise 0.
    Binary,
    /// Always 1: behavioral cloning, with a critic that has no effect.
    All,
}

/// The gradient step of CRR.
#[derive(Debug)]
struct CrrStep {
    config: CrrConfig,
    head: NormalHead,
    policy: Trained<Network>,
    critics: Trained<Critics>,
    target_policy: Params,
    target_critics: Params,
    stream: Stream,
    memory: Buffers,
}

/// Reused memory.
#[derive(Debug, Default)]
struct Buffers {
    valuing: ActionValues,
    scratch: Scratch,
    regression: Regression,
    sampled: SampledActions,
    rows: Vec<f32>,
    targets: Vec<f32>,
    weights: Vec<f32>,
}

/// Actions of a policy, `[samples, batch, dimensions]`.
#[derive(Debug, Default)]
struct SampledActions {
    means: Vec<f32>,
    stddevs: Vec<f32>,
    actions: Vec<f32>,
}

impl SampledActions {
    fn draw(&mut self, head: NormalHead, outputs: &[f32], samples: usize, stream: &mut Stream) {
        let Self { means, stddevs, actions } = self;
        head.distributions(outputs, means, stddevs);
        actions.clear();
        for _ in 0..samples {
            let numbers = means.iter().zip(stddevs.iter());
            actions.extend(numbers.map(|(mean, stddev)| (mean + stddev * draw(stream)).clamp(-1.0, 1.0)));
        }
    }
}

impl CrrStep {
    fn new(config: &CrrConfig, spec: &EnvironmentSpec, key: Key) -> Result<CrrStep> {
        let (spaces, rate, plan) = (Spaces::of(spec)?, config.learning_rate, config.networks());
        let dimensions = spaces.dimensions();
        let critics = Critics::new(&spaces, plan, (1, Returns::Value, Role::Linear), key)?;
        let policy = plan.policy(&spaces, 2 * dimensions, Role::Linear, key)?;
        Ok(CrrStep {
            config: config.clone(),
            head: head(dimensions),
            target_policy: policy.1.clone(),
            target_critics: critics.1.clone(),
            policy: Trained::new(policy, rate),
            critics: Trained::new(critics, rate),
            stream: key.child("actions").stream(),
            memory: Buffers::default(),
        })
    }

    /// Computes the targets of the critic: r + γ·q̄(s′, a′) with an action of the target policy.
    fn compute_targets(&mut self, batch: &Transitions) {
        let Buffers { valuing, scratch, sampled, rows, targets, .. } = &mut self.memory;
        let outputs = self.policy.networks.infer(&self.target_policy, &batch.next_observations, scratch);
        sampled.draw(self.head, outputs, 1, &mut self.stream);
        join(&batch.next_observations, &sampled.actions, self.head.dimensions, rows);
        let next = valuing.outputs(&self.critics.networks, &self.target_critics, rows);
        Returns::Value.targets((&batch.rewards, &batch.discounts), next, targets);
    }

    /// Computes the weight of each action of the batch, from A = q(s, a) − mean q(s, aᵢ) over actions of the policy.
    #[expect(clippy::cast_precision_loss, reason = "samples are few")]
    fn compute_weights(&mut self, batch: &Transitions) {
        let Buffers { valuing, scratch, sampled, rows, weights, .. } = &mut self.memory;
        let (critics, params, samples) = (&self.critics.networks, &self.critics.params, self.config.samples);
        let outputs = self.policy.networks.infer(&self.policy.params, &batch.observations, scratch);
        sampled.draw(self.head, outputs, samples, &mut self.stream);
        join(&batch.observations, &batch.actions, self.head.dimensions, rows);
        weights.clear();
        weights.extend_from_slice(valuing.outputs(critics, params, rows));
        join_many(&batch.observations, &sampled.actions, (self.head.dimensions, samples), rows);
        let others = valuing.outputs(critics, params, rows);
        for sample in others.chunks_exact(weights.len().max(1)) {
            weights.iter_mut().zip(sample).for_each(|(better, value)| *better -= value / samples as f32);
        }
        let CrrConfig { weight, temperature, max_weight, .. } = self.config;
        for advantage in weights.iter_mut() {
            *advantage = match weight {
                CrrWeight::Exp => (*advantage / temperature).exp().min(max_weight),
                CrrWeight::Binary => f32::from(u8::from(*advantage > 0.0)),
                CrrWeight::All => 1.0,
            };
        }
    }
}

impl Improve for CrrStep {
    const WHAT: &'static str = "a learner of CRR";

    fn improve(&mut self, batch: &Transitions) -> Result<StepMetrics> {
        self.compute_targets(batch);
        self.compute_weights(batch);
        let Buffers { regression, rows, targets, weights, .. } = &mut self.memory;
        join(&batch.observations, &batch.actions, self.head.dimensions, rows);
        let Trained { networks, params, gradient, .. } = &mut self.critics;
        let critic_loss = networks.loss(params, rows, targets, gradient);
        let Trained { networks, params, gradient, .. } = &mut self.policy;
        let head = self.head;
        let policy_loss = networks.gradient_into(params, &batch.observations, gradient, |outputs, by| {
            regression.loss(head, outputs, (&batch.actions, weights), by)
        });
        let norms = [self.critics.step()?, self.policy.step()?];
        let step = self.policy.optimizer.steps();
        let update = TargetUpdate::Copy { period: self.config.target_update_period };
        update.follow(&mut self.target_policy, &self.policy.params, step);
        update.follow(&mut self.target_critics, &self.critics.params, step);
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
        let Self { policy, critics, target_policy, target_critics, stream, .. } = self;
        let mut parts =
            vec![Saved::Stream(stream), Saved::Params(target_policy), Saved::Params(target_critics)];
        parts.extend(policy.parts());
        parts.extend(critics.parts());
        parts
    }
}
