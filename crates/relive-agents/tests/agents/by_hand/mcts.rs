//! MCTS, with and without a learned model.

use relive_agents::{MctsConfig, MctsModel};
use relive_env::{ArraySpec, EnvironmentSpec};
use relive_nn::{Activation, Key, Layout, Network};
use relive_tensor::{DType, Nest};

use super::numbers::{Learned, ParamsView, Rule, log_softmax, mean, relu, sigmoid};
use super::seen::{Experience, Transition, choices, width};
use super::{ExpectedReport, Hand, MakeHand};

pub(crate) fn hand(config: &MctsConfig) -> MakeHand {
    let config = config.clone();
    Box::new(move |spec, key| Box::new(Mcts::new(&config, spec, key)))
}

struct Mcts {
    config: MctsConfig,
    actions: usize,
    learned: Learned,
}

impl Mcts {
    fn new(config: &MctsConfig, spec: &EnvironmentSpec, key: Key) -> Mcts {
        let (actions, width, mut layout) = (choices(spec).unwrap(), width(spec), Layout::new());
        let network = Network::builder(&mut layout, "policy_and_value", width);
        network.mlp(&config.hidden, Activation::Relu).linear(actions + 1).build();
        if config.model == MctsModel::Learned {
            let model = Network::builder(&mut layout, "model", width + actions);
            model.mlp(&config.model_hidden, Activation::Relu).linear(width + 2).build();
        }
        let learned = Learned::new(&layout.init(key), Rule::adam(config.learning_rate));
        Mcts { learned: learned.bounded(config.max_gradient_norm), actions, config: config.clone() }
    }

    /// Returns (r + γ·V(s′) − V)², and −Σ π·ln p of the search's policy π (Silver et al. 2017, equation 1).
    fn losses(&self, at: ParamsView<'_>, step: &Transition, goal: f64) -> [f64; 2] {
        let outputs = at.layers("policy_and_value", &step.seen, relu);
        let (logits, value) = outputs.split_at(self.actions);
        let logs = log_softmax(logits);
        let policy = -step.extras.iter().zip(logs).map(|(searched, log_p)| searched * log_p).sum::<f64>();
        [policy, (goal - value[0]).powi(2)]
    }

    /// Returns the squared errors of the next observation and the reward, and the cross-entropy of continuing.
    fn of_model(&self, at: ParamsView<'_>, step: &Transition) -> f64 {
        let mut x = step.seen.clone();
        x.extend((0..self.actions).map(|action| f64::from(u8::from(action == step.choice()))));
        let actual = at.layers("model", &x, relu);
        let width = step.next.len();
        let errors = actual[..width].iter().zip(&step.next).map(|(actual, next)| (actual - next).powi(2));
        let continues = sigmoid(actual[width + 1]);
        let over = -step.discount * continues.ln() - (1.0 - step.discount) * (1.0 - continues).ln();
        errors.sum::<f64>() + (actual[width] - step.reward).powi(2) + over
    }
}

impl Hand for Mcts {
    fn learn(&mut self, experience: &Experience<'_>) -> ExpectedReport {
        let count = u32::try_from(self.actions).unwrap();
        let policy = Nest::Leaf(ArraySpec::new("policy", DType::Float32, [count]));
        let batch = experience.transitions_with(&Nest::dict([("policy", policy)]));
        let goal = |step: &Transition| {
            let next = self.learned.now().layers("policy_and_value", &step.next, relu)[self.actions];
            step.reward + f64::from(self.config.discount) * step.discount * next
        };
        let goals: Vec<f64> = batch.iter().map(goal).collect();
        let is_learned = self.config.model == MctsModel::Learned;
        let parts = |at: ParamsView<'_>| {
            let losses: Vec<[f64; 2]> =
                batch.iter().zip(&goals).map(|(step, goal)| self.losses(at, step, *goal)).collect();
            let of = |part: usize| mean(losses.iter().map(|losses| losses[part]));
            let of_model =
                if is_learned { mean(batch.iter().map(|step| self.of_model(at, step))) } else { 0.0 };
            [of(0), of(1), of_model]
        };
        let (loss, gradient) = self.learned.differentiate(|at| parts(at).iter().sum());
        let [policy, value, of_model] = parts(self.learned.now());
        self.learned.go(&gradient);
        let mut metrics = vec![("loss", loss), ("policy_loss", policy), ("value_loss", value)];
        metrics.extend(is_learned.then_some(("model_loss", of_model)));
        ExpectedReport { metrics, priorities: Vec::new() }
    }

    fn acting(&self) -> Vec<&Learned> {
        vec![&self.learned]
    }
}
