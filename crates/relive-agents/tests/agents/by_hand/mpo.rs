//! MPO and DMPO.

use relive_agents::{DmpoConfig, MpoConfig};
use relive_env::EnvironmentSpec;
use relive_nn::losses::MpoDuals;
use relive_nn::{Key, Layout, Stream};

use super::numbers::{Learned, ParamsView, Rule, log_softmax, log_sum_exp, mean, relu, softplus};
use super::policies::{
    Body, EnvironmentSpaces, LastLayerInit, Normal, ObservationNormalizer, Shape, critic_outputs,
};
use super::returns::{Atoms, Returns};
use super::seen::{Experience, Transition};
use super::{ExpectedReport, Hand, MakeHand};

/// The settings that both agents share.
#[derive(Clone)]
struct Settings {
    /// The learning rates of policy, critic and dual variables.
    rates: [f32; 3],
    periods: [u64; 2],
    returns: Returns,
    samples: usize,
    discount: f64,
    /// Bounds on values, on actions out of bounds, on means and on standard deviations.
    epsilons: [f64; 4],
    begin: f32,
    bound: f32,
    normalizes: bool,
    hidden: [Vec<usize>; 2],
}

macro_rules! settings {
    ($config:ident, $returns:expr) => {{
        let epsilons =
            [$config.epsilon, $config.epsilon_penalty, $config.epsilon_mean, $config.epsilon_stddev];
        Settings {
            rates: [$config.policy_learning_rate, $config.critic_learning_rate, $config.dual_learning_rate],
            periods: [$config.target_policy_period, $config.target_critic_period],
            returns: $returns,
            samples: $config.samples,
            discount: $config.discount.into(),
            epsilons: epsilons.map(f64::from),
            begin: $config.initial_stddev,
            bound: $config.max_gradient_norm,
            normalizes: $config.normalize_observations,
            hidden: [$config.hidden.clone(), $config.critic_hidden.clone()],
        }
    }};
}

pub(crate) fn mpo(config: &MpoConfig) -> MakeHand {
    let settings = settings!(config, Returns::Value);
    Box::new(move |spec, key| Box::new(Mpo::new(&settings, spec, key)))
}

pub(crate) fn dmpo(config: &DmpoConfig) -> MakeHand {
    let settings = settings!(config, Returns::Distribution(Atoms::new(config.value_range, config.atoms)));
    Box::new(move |spec, key| Box::new(Mpo::new(&settings, spec, key)))
}

struct Mpo {
    settings: Settings,
    world: EnvironmentSpaces,
    policy: Learned,
    critic: Learned,
    duals: Learned,
    target_policy: Vec<f64>,
    target_critic: Vec<f64>,
    normalizer: Option<ObservationNormalizer>,
    stream: Stream,
}

/// A next state: the target policy in it, its actions, and their values.
struct State {
    seen: Vec<f64>,
    target: Normal,
    actions: Vec<f64>,
    values: Vec<f64>,
}

impl Mpo {
    fn new(settings: &Settings, spec: &EnvironmentSpec, key: Key) -> Mpo {
        let (world, [rate, critic_rate, dual_rate]) = (EnvironmentSpaces::of(spec), settings.rates);
        let shape = |hidden| Shape { body: Body::LayerNorm, hidden, end: LastLayerInit::NearZero };
        let [hidden, critic_hidden] = &settings.hidden;
        let bound = Some(settings.bound);
        let policy = world.policy(shape(hidden), 2, key, rate).bounded(bound);
        let count = (1, settings.returns.outputs());
        let critic = world.critics(shape(critic_hidden), count, key, critic_rate).bounded(bound);
        let mut layout = Layout::new();
        MpoDuals::new(&mut layout, "duals", 1);
        Mpo {
            target_policy: policy.values.clone(),
            target_critic: critic.values.clone(),
            policy,
            critic,
            duals: Learned::new(&layout.init(key), Rule::adam(dual_rate)),
            normalizer: settings.normalizes.then(ObservationNormalizer::default),
            stream: key.child("actions").stream(),
            world,
            settings: settings.clone(),
        }
    }

    fn normal(&self, at: ParamsView<'_>, seen: &[f64]) -> Normal {
        Normal::by(&at.layers("policy", seen, relu), self.settings.begin, 1e-6, false)
    }

    /// Returns the joint losses of the policy and the dual variables (Abdolmaleki et al. 2018, with the penalty and the
    /// bounds of Hoffman et al. 2020), as functions of the policy and of the dual variables `[η, η of the penalty, α of
    /// means, α of standard deviations]`.
    fn losses(&self, policy: ParamsView<'_>, duals: [f64; 4], states: &[State]) -> [f64; 2] {
        let [eta, penalty, alpha_mean, alpha_stddev] =
            self.duals.values[..].try_into().map(positive).unwrap();
        let [to_values, to_penalty, to_mean, to_stddev] = self.settings.epsilons;
        let costs = |state: &State| -> Vec<f64> {
            state.actions.iter().map(|action| -(action - action.clamp(-1.0, 1.0)).abs()).collect()
        };
        let divided = |numbers: &[f64], by: f64| numbers.iter().map(|number| number / by).collect::<Vec<_>>();
        let fit = |state: &State| {
            let now = self.normal(policy, &state.seen);
            let weights =
                [divided(&state.values, eta), divided(&costs(state), penalty)].map(|all| log_softmax(&all));
            let of_action = |(number, action): (usize, &f64)| {
                let weight = weights[0][number].exp() + weights[1][number].exp();
                let moved = Normal { stddev: state.target.stddev, ..now };
                let widened = Normal { mean: state.target.mean, ..now };
                -weight * (moved.log_density(*action) + widened.log_density(*action))
            };
            state.actions.iter().enumerate().map(of_action).sum::<f64>()
        };
        let kls = self.divergences(policy, states);
        let by_policy = mean(states.iter().map(fit)) + alpha_mean * kls[0] + alpha_stddev * kls[1];
        #[expect(clippy::cast_precision_loss, reason = "samples are few")]
        let log_count = (self.settings.samples as f64).ln();
        let of_temperature = |numbers: &dyn Fn(&State) -> Vec<f64>, eta: f64, epsilon: f64| {
            let logs = states.iter().map(|state| log_sum_exp(&divided(&numbers(state), eta)));
            eta * (epsilon + mean(logs) - log_count)
        };
        let [eta, penalty, alpha_mean, alpha_stddev] = duals;
        let by_duals = of_temperature(&|state| state.values.clone(), eta, to_values)
            + of_temperature(&costs, penalty, to_penalty)
            + alpha_mean * (to_mean - kls[0])
            + alpha_stddev * (to_stddev - kls[1]);
        [by_policy, by_duals]
    }

    /// Returns KL(target ‖ policy) with the policy's mean only, and with its standard deviation only.
    fn divergences(&self, policy: ParamsView<'_>, states: &[State]) -> [f64; 2] {
        let of_mean = |state: &State| {
            let now = self.normal(policy, &state.seen);
            0.5 * ((now.mean - state.target.mean) / state.target.stddev).powi(2)
        };
        let of_stddev = |state: &State| {
            let ratio = state.target.stddev / self.normal(policy, &state.seen).stddev;
            0.5 * ratio * ratio - 0.5 - ratio.ln()
        };
        [mean(states.iter().map(of_mean)), mean(states.iter().map(of_stddev))]
    }
}

/// The learned number of a dual variable is its value before softplus.
fn positive(raw: [f64; 4]) -> [f64; 4] {
    raw.map(|raw| softplus(raw.max(-18.0)) + 1e-8)
}

impl Hand for Mpo {
    fn learn(&mut self, experience: &Experience<'_>) -> ExpectedReport {
        let batch = self.world.transitions(experience, self.normalizer.as_mut());
        let Settings { returns, samples, discount, periods, .. } = self.settings;
        let state = |step: &Transition| State {
            target: self.normal(self.policy.at(&self.target_policy), &step.next),
            seen: step.next.clone(),
            actions: Vec::new(),
            values: Vec::new(),
        };
        let mut states: Vec<State> = batch.iter().map(state).collect();
        for _ in 0..samples {
            for state in &mut states {
                state.actions.push(state.target.mean + state.target.stddev * self.stream.normal());
            }
        }
        let mut goals = Vec::new();
        for (state, step) in states.iter_mut().zip(&batch) {
            let at = self.critic.at(&self.target_critic);
            let say = |action: &f64| critic_outputs(at, 1, &state.seen, action.clamp(-1.0, 1.0));
            let actual: Vec<Vec<f64>> = state.actions.iter().map(say).collect();
            goals.push(returns.target(step.reward, discount * step.discount, &actual));
            state.values = actual.iter().map(|outputs| returns.mean(outputs)).collect();
        }
        let (critic_loss, of_critic) = self.critic.differentiate(|at| {
            let losses = batch.iter().zip(&goals);
            mean(
                losses
                    .map(|(step, goal)| returns.loss(&critic_outputs(at, 1, &step.seen, step.done[0]), goal)),
            )
        });
        let duals = |at: ParamsView<'_>| at.all().try_into().map(positive).unwrap();
        let now = duals(self.duals.now());
        let (by_policy, of_policy) = self.policy.differentiate(|at| self.losses(at, now, &states)[0]);
        let (by_duals, of_duals) =
            self.duals.differentiate(|at| self.losses(self.policy.now(), duals(at), &states)[1]);
        let kls = self.divergences(self.policy.now(), &states);
        self.critic.go(&of_critic);
        self.policy.go(&of_policy);
        self.duals.go(&of_duals);
        let steps = self.policy.steps;
        for (learned, target, period) in [
            (&self.policy, &mut self.target_policy, periods[0]),
            (&self.critic, &mut self.target_critic, periods[1]),
        ] {
            if steps.is_multiple_of(period) {
                target.clone_from(&learned.values);
            }
        }
        ExpectedReport::of(&[
            ("critic_loss", critic_loss),
            ("policy_loss", by_policy + by_duals),
            ("kl_mean_rel", kls[0] / self.settings.epsilons[2]),
            ("kl_stddev_rel", kls[1] / self.settings.epsilons[3]),
            ("temperature", now[0]),
        ])
    }

    /// Policies act with the target policy, which equals the online policy if the last step copied it.
    fn acting(&self) -> Vec<&Learned> {
        vec![&self.policy]
    }
}
