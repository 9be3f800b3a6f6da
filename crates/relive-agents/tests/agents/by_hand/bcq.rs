//! BCQ, and BC with discrete actions.

use relive_agents::{BcConfig, BcqConfig};
use relive_env::EnvironmentSpec;
use relive_nn::{Activation, Key, Layout, LinearInit, Network};

use super::numbers::{Learned, ParamsView, Rule, best, huber, log_softmax, mean, relu};
use super::seen::{Experience, Transition, choices, width};
use super::{ExpectedReport, Hand, MakeHand};

/// Returns networks with the given names, with a logit or a value for each action.
fn learned(spec: &EnvironmentSpec, names: &[&str], hidden: &[usize], key: Key, rate: f32) -> Learned {
    let mut layout = Layout::new();
    for name in names {
        let builder = Network::builder(&mut layout, name, width(spec)).init(LinearInit::PyTorch);
        builder.mlp(hidden, Activation::Relu).linear(choices(spec).unwrap()).build();
    }
    Learned::new(&layout.init(key), Rule::adam(rate))
}

pub(crate) fn bc(config: &BcConfig) -> MakeHand {
    let config = config.clone();
    Box::new(move |spec, key| {
        let (key, rate) = (key.child("policy"), config.learning_rate);
        Box::new(Bc(learned(spec, &["policy"], &config.hidden, key, rate)))
    })
}

struct Bc(Learned);

impl Hand for Bc {
    fn learn(&mut self, experience: &Experience<'_>) -> ExpectedReport {
        let batch = experience.transitions();
        let (loss, gradient) = self.0.differentiate(|at| {
            mean(batch.iter().map(|step| -log_softmax(&at.layers("policy", &step.seen, relu))[step.choice()]))
        });
        self.0.go(&gradient);
        ExpectedReport::of(&[("policy_loss", loss)])
    }

    fn acting(&self) -> Vec<&Learned> {
        vec![&self.0]
    }
}

pub(crate) fn bcq(config: &BcqConfig) -> MakeHand {
    let config = config.clone();
    Box::new(move |spec, key| {
        let names = ["values", "imitation"];
        let learned = learned(spec, &names, &config.hidden, key.child("bcq"), config.learning_rate);
        Box::new(Bcq { target: learned.values.clone(), learned, config: config.clone() })
    })
}

struct Bcq {
    config: BcqConfig,
    learned: Learned,
    target: Vec<f64>,
}

impl Bcq {
    /// Returns r + γ·q̄(s', a'), where a' has the greatest q among actions that are likely enough (Fujimoto et al.
    /// 2019, equation 4).
    fn goal(&self, step: &Transition) -> f64 {
        let likely = log_softmax(&self.learned.now().layers("imitation", &step.next, relu));
        let most = likely[best(&likely)].exp();
        let mut values = self.learned.now().layers("values", &step.next, relu);
        for (value, log_p) in values.iter_mut().zip(&likely) {
            if log_p.exp() / most <= f64::from(self.config.threshold) {
                *value = f64::NEG_INFINITY;
            }
        }
        let next = self.learned.at(&self.target).layers("values", &step.next, relu)[best(&values)];
        step.reward + f64::from(self.config.discount) * step.discount * next
    }

    /// Returns −ln G(a|s) + 0.01·mean of the squares of its logits.
    fn imitation(at: ParamsView<'_>, step: &Transition) -> f64 {
        let logits = at.layers("imitation", &step.seen, relu);
        -log_softmax(&logits)[step.choice()] + 0.01 * mean(logits.iter().map(|logit| logit * logit))
    }
}

impl Hand for Bcq {
    fn learn(&mut self, experience: &Experience<'_>) -> ExpectedReport {
        let batch = experience.transitions();
        let goals: Vec<f64> = batch.iter().map(|step| self.goal(step)).collect();
        let losses = |at: ParamsView<'_>| {
            let error = |(step, goal): (&Transition, &f64)| {
                huber(goal - at.layers("values", &step.seen, relu)[step.choice()])
            };
            let values = mean(batch.iter().zip(&goals).map(error));
            [values, mean(batch.iter().map(|step| Bcq::imitation(at, step)))]
        };
        let (_, gradient) = self.learned.differentiate(|at| losses(at).iter().sum());
        let [value_loss, policy_loss] = losses(self.learned.now());
        self.learned.go(&gradient);
        self.learned.draw_near(&mut self.target, self.config.tau);
        ExpectedReport::of(&[("value_loss", value_loss), ("policy_loss", policy_loss)])
    }

    fn acting(&self) -> Vec<&Learned> {
        vec![&self.learned]
    }
}
