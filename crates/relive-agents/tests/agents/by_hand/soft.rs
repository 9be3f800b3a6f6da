//! SAC, REDQ and CQL: policies that are normal distributions squashed by tanh.

use relive_agents::{CqlConfig, SacConfig};
use relive_env::EnvironmentSpec;
use relive_nn::{Init, Key, Layout, Stream};

use super::numbers::{Learned, ParamsView, Rule, log_normal, log_sum_exp, mean, relu};
use super::policies::{Body, EnvironmentSpaces, LastLayerInit, ObservationNormalizer, Shape, value_of};
use super::seen::{Experience, Transition};
use super::{ExpectedReport, Hand, MakeHand};

/// Returns the action tanh(μ + σ·z), and its ln π (Haarnoja et al. 2018, appendix C).
fn squashed(at: ParamsView<'_>, seen: &[f64], z: f64) -> (f64, f64) {
    let outputs = at.layers("policy", seen, relu);
    let stddev = outputs[1].clamp(-20.0, 2.0).exp();
    let unsquashed = outputs[0] + stddev * z;
    (unsquashed.tanh(), log_squashed(unsquashed, outputs[0], stddev))
}

fn log_squashed(unsquashed: f64, mean: f64, stddev: f64) -> f64 {
    log_normal(unsquashed, mean, stddev) - (1.0 - unsquashed.tanh().powi(2)).ln()
}

/// Returns half the sum of the critics' squared errors.
fn errors(at: ParamsView<'_>, critics: usize, step: &Transition, goal: f64) -> f64 {
    let error = |number: usize| 0.5 * (goal - value_of(at, number, &step.seen, step.done[0])).powi(2);
    (1..=critics).map(error).sum()
}

fn least(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::INFINITY, f64::min)
}

pub(crate) fn sac(config: &SacConfig) -> MakeHand {
    let config = config.clone();
    Box::new(move |spec, key| Box::new(Sac::new(&config, spec, key)))
}

struct Sac {
    config: SacConfig,
    world: EnvironmentSpaces,
    policy: Learned,
    critics: Learned,
    target: Vec<f64>,
    /// The logarithm of the temperature.
    temperature: Learned,
    normalizer: Option<ObservationNormalizer>,
    /// The random streams of next actions and of actions.
    streams: [Stream; 2],
}

impl Sac {
    fn new(config: &SacConfig, spec: &EnvironmentSpec, key: Key) -> Sac {
        let (world, rate) = (EnvironmentSpaces::of(spec), config.learning_rate);
        let shape = Shape { body: Body::Relu, hidden: &config.hidden, end: LastLayerInit::Linear };
        let critics = world.critics(shape, (config.critics, 1), key, rate);
        let mut layout = Layout::new();
        layout.add("log_temperature", &[1], Init::Constant(config.initial_temperature.ln()));
        Sac {
            policy: world.policy(shape, 2, key, rate),
            target: critics.values.clone(),
            critics,
            temperature: Learned::new(&layout.init(key), Rule::adam(rate)),
            normalizer: config.normalize_observations.then(ObservationNormalizer::default),
            streams: ["next actions", "actions"].map(|name| key.child(name).stream()),
            world,
            config: config.clone(),
        }
    }

    /// Returns the critics that determine the targets of a batch.
    fn counted(&mut self) -> Vec<usize> {
        let SacConfig { critics, critics_of_target, .. } = self.config;
        let mut all: Vec<usize> = (1..=critics).collect();
        for place in 0..critics_of_target {
            if critics_of_target < critics {
                all.swap(place, place + self.streams[0].below(critics - place));
            }
        }
        all.truncate(critics_of_target);
        all
    }
}

impl Hand for Sac {
    fn learn(&mut self, experience: &Experience<'_>) -> ExpectedReport {
        let batch = self.world.transitions(experience, self.normalizer.as_mut());
        let SacConfig { critics, critics_of_target, target_entropy, .. } = self.config;
        let alpha = self.temperature.values[0].exp();
        let z: Vec<f64> = batch.iter().map(|_| self.streams[0].normal()).collect();
        let counted = self.counted();
        let goal = |(step, z): (&Transition, &f64)| {
            let (action, log_p) = squashed(self.policy.now(), &step.next, *z);
            let at = self.critics.at(&self.target);
            let value = least(counted.iter().map(|number| value_of(at, *number, &step.next, action)));
            step.reward + f64::from(self.config.discount) * step.discount * (value - alpha * log_p)
        };
        let goals: Vec<f64> = batch.iter().zip(&z).map(goal).collect();
        let (critic_loss, of_critics) = self.critics.differentiate(|at| {
            mean(batch.iter().zip(&goals).map(|(step, goal)| errors(at, critics, step, *goal)))
        });
        let z: Vec<f64> = batch.iter().map(|_| self.streams[1].normal()).collect();
        let (policy_loss, of_policy) = self.policy.differentiate(|at| {
            let of = |(step, z): (&Transition, &f64)| {
                let (action, log_p) = squashed(at, &step.seen, *z);
                let values =
                    (1..=critics).map(|number| value_of(self.critics.now(), number, &step.seen, action));
                alpha * log_p - if critics_of_target == critics { least(values) } else { mean(values) }
            };
            mean(batch.iter().zip(&z).map(of))
        });
        let log_p = mean(batch.iter().zip(&z).map(|(step, z)| squashed(self.policy.now(), &step.seen, *z).1));
        let entropy = f64::from(target_entropy.unwrap_or(-1.0));
        self.critics.go(&of_critics);
        self.policy.go(&of_policy);
        self.temperature.go(&[-(log_p + entropy)]);
        self.critics.draw_near(&mut self.target, self.config.tau);
        ExpectedReport::of(&[
            ("critic_loss", critic_loss),
            ("policy_loss", policy_loss),
            ("entropy", -log_p),
            ("temperature", alpha),
        ])
    }

    fn acting(&self) -> Vec<&Learned> {
        vec![&self.policy]
    }
}

pub(crate) fn cql(config: &CqlConfig) -> MakeHand {
    let config = config.clone();
    Box::new(move |spec, key| Box::new(Cql::new(&config, spec, key)))
}

struct Cql {
    config: CqlConfig,
    world: EnvironmentSpaces,
    policy: Learned,
    critics: Learned,
    target: Vec<f64>,
    normalizer: Option<ObservationNormalizer>,
    stream: Stream,
}

impl Cql {
    fn new(config: &CqlConfig, spec: &EnvironmentSpec, key: Key) -> Cql {
        let world = EnvironmentSpaces::of(spec);
        let shape = Shape { body: Body::Relu, hidden: &config.hidden, end: LastLayerInit::Linear };
        let critics = world.critics(shape, (2, 1), key, config.critic_learning_rate);
        Cql {
            policy: world.policy(shape, 2, key, config.policy_learning_rate),
            target: critics.values.clone(),
            critics,
            normalizer: config.normalize_observations.then(ObservationNormalizer::default),
            stream: key.child("actions").stream(),
            world,
            config: config.clone(),
        }
    }

    /// Returns actions for each state of a batch, with the logarithms of their densities: uniform ones, actions of the
    /// policy in the state, and actions of the policy in the next state.
    fn sampled(&mut self, batch: &[Transition]) -> Vec<Vec<(f64, f64)>> {
        let mut all = vec![Vec::new(); batch.len()];
        for _ in 0..self.config.samples {
            all.iter_mut().for_each(|of| of.push((2.0 * self.stream.uniform() - 1.0, 0.5_f64.ln())));
        }
        for is_next in [false, true] {
            for _ in 0..self.config.samples {
                for (step, of) in batch.iter().zip(&mut all) {
                    let seen = if is_next { &step.next } else { &step.seen };
                    of.push(squashed(self.policy.now(), seen, self.stream.normal()));
                }
            }
        }
        all
    }

    /// Returns the loss of the policy in a state.
    fn of_policy(&self, at: ParamsView<'_>, step: &Transition, z: Option<f64>) -> f64 {
        let Some(z) = z else {
            let outputs = at.layers("policy", &step.seen, relu);
            let unsquashed = step.done[0].clamp(-0.999, 0.999).atanh();
            return -log_squashed(unsquashed, outputs[0], outputs[1].clamp(-20.0, 2.0).exp());
        };
        let (action, log_p) = squashed(at, &step.seen, z);
        let values = (1..=2).map(|number| value_of(self.critics.now(), number, &step.seen, action));
        f64::from(self.config.temperature) * log_p - least(values)
    }
}

impl Hand for Cql {
    fn learn(&mut self, experience: &Experience<'_>) -> ExpectedReport {
        let batch = self.world.transitions(experience, self.normalizer.as_mut());
        let goals: Vec<f64> = batch
            .iter()
            .map(|step| {
                let (action, _) = squashed(self.policy.now(), &step.next, self.stream.normal());
                let at = self.critics.at(&self.target);
                let value = least((1..=2).map(|number| value_of(at, number, &step.next, action)));
                step.reward + f64::from(self.config.discount) * step.discount * value
            })
            .collect();
        let sampled = self.sampled(&batch);
        let conservatism = f64::from(self.config.conservatism);
        let (critic_loss, of_critics) = self.critics.differentiate(|at| {
            let of = |row: usize| {
                let step = &batch[row];
                let beyond = |number: usize| {
                    let value = |action: f64| value_of(at, number, &step.seen, action);
                    let scaled: Vec<f64> =
                        sampled[row].iter().map(|(action, log_p)| value(*action) - log_p).collect();
                    #[expect(clippy::cast_precision_loss, reason = "samples are few")]
                    let count = scaled.len() as f64;
                    log_sum_exp(&scaled) - count.ln() - value(step.done[0])
                };
                errors(at, 2, step, goals[row]) + conservatism * (beyond(1) + beyond(2))
            };
            mean((0..batch.len()).map(of))
        });
        let imitates = self.policy.steps < self.config.imitation_steps;
        let z: Vec<_> = batch.iter().map(|_| (!imitates).then(|| self.stream.normal())).collect();
        let (policy_loss, of_policy) = self
            .policy
            .differentiate(|at| mean(batch.iter().zip(&z).map(|(step, z)| self.of_policy(at, step, *z))));
        self.critics.go(&of_critics);
        self.policy.go(&of_policy);
        self.critics.draw_near(&mut self.target, self.config.tau);
        ExpectedReport::of(&[("critic_loss", critic_loss), ("policy_loss", policy_loss)])
    }

    fn acting(&self) -> Vec<&Learned> {
        vec![&self.policy]
    }
}
