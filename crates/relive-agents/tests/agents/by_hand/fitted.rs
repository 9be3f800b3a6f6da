//! BC with continuous actions, CRR and IQL: policies that are fitted to recorded actions.

use relive_agents::{BcConfig, CrrConfig, CrrWeight, IqlConfig};
use relive_env::EnvironmentSpec;
use relive_nn::{Key, Stream};

use super::numbers::{Learned, ParamsView, mean, relu};
use super::policies::{
    Body, EnvironmentSpaces, LastLayerInit, Normal, ObservationNormalizer, Shape, value_of,
};
use super::seen::{Experience, Transition};
use super::{ExpectedReport, Hand, MakeHand};

/// Returns the policy in a state: a normal distribution with a mean that is squashed by tanh, and a standard deviation
/// of at least 0.03.
fn policy(at: ParamsView<'_>, seen: &[f64]) -> Normal {
    Normal::by(&at.layers("policy", seen, relu), 0.5, 0.03, true)
}

/// Returns −mean w·ln π(a).
fn fit(batch: &[Transition], weights: &[f64], policy: impl Fn(&[f64]) -> Normal) -> f64 {
    let of = |(step, weight): (&Transition, &f64)| -weight * policy(&step.seen).log_density(step.done[0]);
    mean(batch.iter().zip(weights).map(of))
}

fn relu_shape(hidden: &[usize]) -> Shape<'_> {
    Shape { body: Body::Relu, hidden, end: LastLayerInit::Linear }
}

pub(crate) fn bc(config: &BcConfig) -> MakeHand {
    let config = config.clone();
    Box::new(move |spec, key| {
        let world = EnvironmentSpaces::of(spec);
        let learned = world.policy(relu_shape(&config.hidden), 2, key, config.learning_rate);
        let normalizer = config.normalize_observations.then(ObservationNormalizer::default);
        Box::new(Bc { world, learned, normalizer })
    })
}

struct Bc {
    world: EnvironmentSpaces,
    learned: Learned,
    normalizer: Option<ObservationNormalizer>,
}

impl Hand for Bc {
    fn learn(&mut self, experience: &Experience<'_>) -> ExpectedReport {
        let batch = self.world.transitions(experience, self.normalizer.as_mut());
        let weights = vec![1.0; batch.len()];
        let (loss, gradient) =
            self.learned.differentiate(|at| fit(&batch, &weights, |seen| policy(at, seen)));
        self.learned.go(&gradient);
        ExpectedReport::of(&[("policy_loss", loss)])
    }

    fn acting(&self) -> Vec<&Learned> {
        vec![&self.learned]
    }
}

pub(crate) fn crr(config: &CrrConfig) -> MakeHand {
    let config = config.clone();
    Box::new(move |spec, key| Box::new(Crr::new(&config, spec, key)))
}

struct Crr {
    config: CrrConfig,
    world: EnvironmentSpaces,
    policy: Learned,
    critic: Learned,
    target_policy: Vec<f64>,
    target_critic: Vec<f64>,
    normalizer: Option<ObservationNormalizer>,
    stream: Stream,
}

impl Crr {
    fn new(config: &CrrConfig, spec: &EnvironmentSpec, key: Key) -> Crr {
        let (world, rate) = (EnvironmentSpaces::of(spec), config.learning_rate);
        let policy = world.policy(relu_shape(&config.hidden), 2, key, rate);
        let critic = world.critics(relu_shape(&config.hidden), (1, 1), key, rate);
        Crr {
            target_policy: policy.values.clone(),
            target_critic: critic.values.clone(),
            policy,
            critic,
            normalizer: config.normalize_observations.then(ObservationNormalizer::default),
            stream: key.child("actions").stream(),
            world,
            config: config.clone(),
        }
    }

    fn draw(&mut self, policy: Normal) -> f64 {
        (policy.mean + policy.stddev * self.stream.normal()).clamp(-1.0, 1.0)
    }

    /// Returns the weight of each action, as a function of its advantage over the policy's actions (Wang et al. 2020,
    /// equations 2 and 3).
    fn weights(&mut self, batch: &[Transition]) -> Vec<f64> {
        let mut drawn = vec![Vec::new(); batch.len()];
        for _ in 0..self.config.samples {
            for (step, drawn) in batch.iter().zip(&mut drawn) {
                let own = policy(self.policy.now(), &step.seen);
                drawn.push(self.draw(own));
            }
        }
        let CrrConfig { weight, temperature, max_weight, .. } = self.config;
        let of = |(step, drawn): (&Transition, &Vec<f64>)| {
            let value = |action: f64| value_of(self.critic.now(), 1, &step.seen, action);
            let better = value(step.done[0]) - mean(drawn.iter().map(|action| value(*action)));
            match weight {
                CrrWeight::Exp => (better / f64::from(temperature)).exp().min(max_weight.into()),
                CrrWeight::Binary => f64::from(u8::from(better > 0.0)),
                CrrWeight::All => 1.0,
            }
        };
        batch.iter().zip(&drawn).map(of).collect()
    }
}

impl Hand for Crr {
    fn learn(&mut self, experience: &Experience<'_>) -> ExpectedReport {
        let batch = self.world.transitions(experience, self.normalizer.as_mut());
        let mut goals = Vec::new();
        for step in &batch {
            let next = policy(self.policy.at(&self.target_policy), &step.next);
            let action = self.draw(next);
            let value = value_of(self.critic.at(&self.target_critic), 1, &step.next, action);
            goals.push(step.reward + f64::from(self.config.discount) * step.discount * value);
        }
        let weights = self.weights(&batch);
        let (critic_loss, of_critic) = self.critic.differentiate(|at| {
            let error = |(step, goal): (&Transition, &f64)| {
                0.5 * (goal - value_of(at, 1, &step.seen, step.done[0])).powi(2)
            };
            mean(batch.iter().zip(&goals).map(error))
        });
        let (policy_loss, of_policy) =
            self.policy.differentiate(|at| fit(&batch, &weights, |seen| policy(at, seen)));
        self.critic.go(&of_critic);
        self.policy.go(&of_policy);
        if self.policy.steps.is_multiple_of(self.config.target_update_period) {
            self.target_policy.clone_from(&self.policy.values);
            self.target_critic.clone_from(&self.critic.values);
        }
        ExpectedReport::of(&[("critic_loss", critic_loss), ("policy_loss", policy_loss)])
    }

    fn acting(&self) -> Vec<&Learned> {
        vec![&self.policy]
    }
}

pub(crate) fn iql(config: &IqlConfig) -> MakeHand {
    let config = config.clone();
    Box::new(move |spec, key| Box::new(Iql::new(&config, spec, key)))
}

struct Iql {
    config: IqlConfig,
    world: EnvironmentSpaces,
    policy: Learned,
    critics: Learned,
    value: Learned,
    target: Vec<f64>,
    normalizer: Option<ObservationNormalizer>,
}

impl Iql {
    fn new(config: &IqlConfig, spec: &EnvironmentSpec, key: Key) -> Iql {
        let (world, rate, shape) =
            (EnvironmentSpaces::of(spec), config.learning_rate, relu_shape(&config.hidden));
        let critics = world.critics(shape, (2, 1), key, rate);
        Iql {
            policy: world.policy(shape, 2, key, rate),
            target: critics.values.clone(),
            critics,
            value: world.value(shape, key, rate),
            normalizer: config.normalize_observations.then(ObservationNormalizer::default),
            world,
            config: config.clone(),
        }
    }

    fn policy(&self, at: ParamsView<'_>, seen: &[f64]) -> Normal {
        let learned = policy(at, seen);
        Normal { stddev: self.config.stddev.map_or(learned.stddev, f64::from), ..learned }
    }
}

impl Hand for Iql {
    fn learn(&mut self, experience: &Experience<'_>) -> ExpectedReport {
        let batch = self.world.transitions(experience, self.normalizer.as_mut());
        let IqlConfig { expectile, inverse_temperature, max_weight, discount, .. } = self.config;
        let value = |at: ParamsView<'_>, seen: &[f64]| at.layers("value", seen, relu)[0];
        let worth = |step: &Transition| {
            let of = |number| value_of(self.critics.at(&self.target), number, &step.seen, step.done[0]);
            of(1).min(of(2))
        };
        let worths: Vec<f64> = batch.iter().map(worth).collect();
        let weight = |(step, worth): (&Transition, &f64)| {
            let better = worth - value(self.value.now(), &step.seen);
            (f64::from(inverse_temperature) * better).exp().min(max_weight.into())
        };
        let weights: Vec<f64> = batch.iter().zip(&worths).map(weight).collect();
        // Kostrikov et al. 2022, equations 5, 6 and 7.
        let (value_loss, of_value) = self.value.differentiate(|at| {
            let of = |(step, worth): (&Transition, &f64)| {
                let apart = worth - value(at, &step.seen);
                (f64::from(expectile) - f64::from(u8::from(apart < 0.0))).abs() * apart * apart
            };
            mean(batch.iter().zip(&worths).map(of))
        });
        let (critic_loss, of_critics) = self.critics.differentiate(|at| {
            let of = |step: &Transition| {
                let goal =
                    step.reward + f64::from(discount) * step.discount * value(self.value.now(), &step.next);
                let error = |number| 0.5 * (goal - value_of(at, number, &step.seen, step.done[0])).powi(2);
                error(1) + error(2)
            };
            mean(batch.iter().map(of))
        });
        let (policy_loss, of_policy) =
            self.policy.differentiate(|at| fit(&batch, &weights, |seen| self.policy(at, seen)));
        self.value.go(&of_value);
        self.critics.go(&of_critics);
        self.policy.go(&of_policy);
        self.critics.draw_near(&mut self.target, self.config.tau);
        ExpectedReport::of(&[
            ("value_loss", value_loss),
            ("critic_loss", critic_loss),
            ("policy_loss", policy_loss),
        ])
    }

    fn acting(&self) -> Vec<&Learned> {
        vec![&self.policy]
    }
}
