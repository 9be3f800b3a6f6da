//! DDPG, D4PG, TD3 and TD3+BC.

use relive_agents::{D4pgConfig, DdpgConfig, Td3BcConfig, Td3Config};
use relive_env::EnvironmentSpec;
use relive_nn::{Key, Stream};

use super::numbers::{Learned, ParamsView, mean, relu};
use super::policies::{Body, EnvironmentSpaces, LastLayerInit, ObservationNormalizer, Shape, critic_outputs};
use super::returns::{Atoms, Returns};
use super::seen::{Experience, Transition};
use super::{ExpectedReport, Hand, MakeHand};

/// The settings of all these agents.
#[derive(Clone)]
struct Settings {
    rates: [f32; 2],
    discount: f64,
    critics: usize,
    returns: Returns,
    /// The update of target networks: the period of copies, or the share of each move.
    follow: Result<u64, f32>,
    is_of_acme: bool,
    period: u64,
    noise: [f64; 2],
    alpha: Option<f64>,
    bound_of_slope: Option<f64>,
    bound: Option<f32>,
    normalizes: bool,
    hidden: [Vec<usize>; 2],
}

macro_rules! of_acme {
    ($config:ident, $returns:expr) => {
        Settings {
            rates: [$config.policy_learning_rate, $config.critic_learning_rate],
            discount: $config.discount.into(),
            critics: 1,
            returns: $returns,
            follow: Ok($config.target_update_period),
            is_of_acme: true,
            period: 1,
            noise: [0.0; 2],
            alpha: None,
            bound_of_slope: $config.max_action_gradient.map(f64::from),
            bound: $config.max_gradient_norm,
            normalizes: $config.normalize_observations,
            hidden: [$config.hidden.clone(), $config.critic_hidden.clone()],
        }
    };
}

macro_rules! of_td3 {
    ($config:ident, $alpha:expr) => {
        Settings {
            rates: [$config.policy_learning_rate, $config.critic_learning_rate],
            discount: $config.discount.into(),
            critics: 2,
            returns: Returns::Value,
            follow: Err($config.tau),
            is_of_acme: false,
            period: $config.policy_period,
            noise: [$config.target_noise.into(), $config.target_noise_clip.into()],
            alpha: $alpha,
            bound_of_slope: None,
            bound: None,
            normalizes: $config.normalize_observations,
            hidden: [$config.hidden.clone(), $config.critic_hidden.clone()],
        }
    };
}

fn made(settings: Settings) -> MakeHand {
    Box::new(move |spec, key| Box::new(Deterministic::new(&settings, spec, key)))
}

pub(crate) fn ddpg(config: &DdpgConfig) -> MakeHand {
    made(of_acme!(config, Returns::Value))
}

pub(crate) fn d4pg(config: &D4pgConfig) -> MakeHand {
    made(of_acme!(config, Returns::Distribution(Atoms::new(config.value_range, config.atoms))))
}

pub(crate) fn td3(config: &Td3Config) -> MakeHand {
    made(of_td3!(config, None))
}

pub(crate) fn td3_bc(config: &Td3BcConfig) -> MakeHand {
    made(of_td3!(config, Some(config.alpha.into())))
}

struct Deterministic {
    settings: Settings,
    world: EnvironmentSpaces,
    policy: Learned,
    critics: Learned,
    target_policy: Vec<f64>,
    target_critics: Vec<f64>,
    normalizer: Option<ObservationNormalizer>,
    stream: Stream,
    policy_loss: f64,
}

fn action(at: ParamsView<'_>, seen: &[f64]) -> f64 {
    at.layers("policy", seen, relu)[0].tanh()
}

impl Deterministic {
    fn new(settings: &Settings, spec: &EnvironmentSpec, key: Key) -> Deterministic {
        let (world, [rate, critic_rate]) = (EnvironmentSpaces::of(spec), settings.rates);
        let [hidden, critic_hidden] = &settings.hidden;
        let shape = |hidden, end| Shape { body: Body::LayerNorm, hidden, end };
        let policy =
            world.policy(shape(hidden, LastLayerInit::NearZero), 1, key, rate).bounded(settings.bound);
        let count = (settings.critics, settings.returns.outputs());
        let critics = world.critics(shape(critic_hidden, LastLayerInit::Linear), count, key, critic_rate);
        Deterministic {
            target_policy: policy.values.clone(),
            target_critics: critics.values.clone(),
            policy,
            critics: critics.bounded(settings.bound),
            world,
            normalizer: settings.normalizes.then(ObservationNormalizer::default),
            stream: key.child("next actions").stream(),
            policy_loss: 0.0,
            settings: settings.clone(),
        }
    }

    /// Returns the target of the critics.
    fn goal(&mut self, step: &Transition) -> Vec<f64> {
        let Settings { returns, critics, noise: [noise, bound], .. } = self.settings;
        let mut next = action(self.policy.at(&self.target_policy), &step.next);
        if noise > 0.0 {
            next = (next + (noise * self.stream.normal()).clamp(-bound, bound)).clamp(-1.0, 1.0);
        }
        let at = self.critics.at(&self.target_critics);
        let actual = (1..=critics).map(|number| critic_outputs(at, number, &step.next, next));
        let least = actual.reduce(|a, b| if b[0] < a[0] { b } else { a }).unwrap();
        returns.target(step.reward, self.settings.discount * step.discount, &[least])
    }

    /// Returns the loss of the policy and its gradient: actions ascend the slope of the first critic, clipped to its
    /// bound.
    fn climb(&self, batch: &[Transition]) -> (f64, Vec<f64>) {
        let Settings { returns, is_of_acme, alpha, bound_of_slope, .. } = self.settings;
        let seen = |step: &Transition| if is_of_acme { step.next.clone() } else { step.seen.clone() };
        let value =
            |seen: &[f64], action: f64| returns.mean(&critic_outputs(self.critics.now(), 1, seen, action));
        let own = |step: &Transition| action(self.policy.now(), &seen(step));
        let slope = |step: &Transition| {
            let at = |moved: f64| value(&seen(step), own(step) + moved);
            let slope = (at(1e-5) - at(-1e-5)) / 2e-5;
            bound_of_slope.map_or(slope, |bound| slope.clamp(-bound, bound))
        };
        let slopes: Vec<f64> = batch.iter().map(slope).collect();
        let values: Vec<f64> = batch.iter().map(|step| value(&seen(step), own(step))).collect();
        let lambda = alpha.map_or(1.0, |alpha| alpha / mean(values.iter().map(|value| value.abs())));
        let apart = |at: ParamsView<'_>| {
            let of_step = |step: &Transition| (action(at, &seen(step)) - step.done[0]).powi(2);
            if alpha.is_some() { mean(batch.iter().map(of_step)) } else { 0.0 }
        };
        let (_, gradient) = self.policy.differentiate(|at| {
            let climbed = batch.iter().zip(&slopes).map(|(step, slope)| -slope * action(at, &seen(step)));
            lambda * mean(climbed) + apart(at)
        });
        (apart(self.policy.now()) - lambda * mean(values.into_iter()), gradient)
    }
}

impl Hand for Deterministic {
    fn learn(&mut self, experience: &Experience<'_>) -> ExpectedReport {
        let batch = self.world.transitions(experience, self.normalizer.as_mut());
        let goals: Vec<Vec<f64>> = batch.iter().map(|step| self.goal(step)).collect();
        let Settings { returns, critics, .. } = self.settings;
        let (critic_loss, gradient) = self.critics.differentiate(|at| {
            let of = |(step, goal): (&Transition, &Vec<f64>)| {
                let actual = (1..=critics).map(|number| critic_outputs(at, number, &step.seen, step.done[0]));
                actual.map(|outputs| returns.loss(&outputs, goal)).sum::<f64>()
            };
            mean(batch.iter().zip(&goals).map(of))
        });
        let is_due = (self.critics.steps + 1).is_multiple_of(self.settings.period);
        if is_due {
            let (loss, gradient) = self.climb(&batch);
            self.policy_loss = loss;
            self.policy.go(&gradient);
        }
        self.critics.go(&gradient);
        let (steps, follow) = (self.critics.steps, self.settings.follow);
        let go = |learned: &Learned, target: &mut Vec<f64>| match follow {
            Ok(period) if steps.is_multiple_of(period) => target.clone_from(&learned.values),
            Ok(_) => {}
            Err(tau) => learned.draw_near(target, tau),
        };
        go(&self.critics, &mut self.target_critics);
        if is_due {
            go(&self.policy, &mut self.target_policy);
        }
        ExpectedReport::of(&[("critic_loss", critic_loss), ("policy_loss", self.policy_loss)])
    }

    fn acting(&self) -> Vec<&Learned> {
        vec![&self.policy]
    }
}
