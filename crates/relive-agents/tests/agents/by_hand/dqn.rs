//! DQN and its variants: Rainbow, Ape-X, DQfD, IQN.

use relive_agents::{DqnConfig, DqnLoss};
use relive_env::EnvironmentSpec;
use relive_nn::{Activation, Init, Key, Layout, LinearInit, Network, Params, Stream};

use super::numbers::{Learned, ParamsView, Rule, best, huber, log_softmax, log_sum_exp, mean, relu};
use super::returns::{Atoms, cross_entropy};
use super::seen::{Experience, Transition, choices, width};
use super::{ExpectedReport, Hand, MakeHand};

pub(crate) fn hand(config: &DqnConfig) -> MakeHand {
    let config = config.clone();
    Box::new(move |spec, key| Box::new(Dqn::new(&config, spec, key)))
}

struct Dqn {
    config: DqnConfig,
    actions: usize,
    learned: Learned,
    target: Vec<f64>,
    stream: Stream,
}

/// The number of fractions that choose actions, and the number of cosines that embed a fraction.
const FRACTIONS: usize = 32;
const COSINES: usize = 64;

impl Dqn {
    fn new(config: &DqnConfig, spec: &EnvironmentSpec, key: Key) -> Dqn {
        let actions = choices(spec).unwrap();
        let params = begun(config, width(spec), actions, key);
        let learned = Learned::new(&params, Rule::adam(config.learning_rate));
        Dqn {
            target: learned.values.clone(),
            learned: learned.bounded(config.max_gradient_norm),
            stream: key.child("noise").stream(),
            actions,
            config: config.clone(),
        }
    }

    /// Returns the outputs for each action: its value, its atoms, or its quantiles at fractions.
    fn outputs(&self, at: ParamsView<'_>, seen: &[f64], fractions: &[f64]) -> Vec<Vec<f64>> {
        if self.config.loss == DqnLoss::ImplicitQuantile {
            return self.quantiles(at, seen, fractions);
        }
        let hidden = self.config.hidden.len();
        let all = match self.config.duelling {
            true => {
                let mut x = seen.to_vec();
                for layer in 0..hidden - 1 {
                    x = at.linear(&format!("q/{layer}"), &x).into_iter().map(relu).collect();
                }
                duelling(at, &format!("q/{}", hidden - 1), &x, self.actions)
            }
            false => at.layers("q", seen, relu),
        };
        all.chunks_exact(all.len() / self.actions).map(<[f64]>::to_vec).collect()
    }

    /// Dabney et al. 2018, equation 4 and section 3: ψ(s) ⊙ φ(τ) through a head.
    #[expect(clippy::cast_precision_loss, reason = "cosines are few")]
    fn quantiles(&self, at: ParamsView<'_>, seen: &[f64], fractions: &[f64]) -> Vec<Vec<f64>> {
        let features: Vec<f64> = at.layers("q/torso", seen, relu).into_iter().map(relu).collect();
        let mut all = vec![Vec::new(); self.actions];
        for tau in fractions {
            let cosines: Vec<f64> =
                (0..COSINES).map(|i| (std::f64::consts::PI * i as f64 * tau).cos()).collect();
            let embedded = at.layers("q/embedding", &cosines, relu).into_iter().map(relu);
            let product: Vec<f64> = features.iter().zip(embedded).map(|(a, b)| a * b).collect();
            let values = match self.config.duelling {
                true => duelling(at, "q/head/0", &product, self.actions),
                false => at.layers("q/head", &product, relu),
            };
            all.iter_mut().zip(values).for_each(|(of_action, value)| of_action.push(value));
        }
        all
    }

    fn atoms(&self) -> Atoms {
        Atoms::new(self.config.value_range, self.config.atoms)
    }

    /// Returns the action with the greatest value.
    fn chosen(&self, outputs: &[Vec<f64>]) -> usize {
        let value = |numbers: &Vec<f64>| match self.config.loss {
            DqnLoss::Categorical => self.atoms().mean(numbers),
            _ => mean(numbers.iter().copied()),
        };
        best(&outputs.iter().map(value).collect::<Vec<_>>())
    }

    /// Returns the targets of the outputs for the action taken.
    fn goal(&self, [online, target]: [ParamsView<'_>; 2], step: &Transition, fractions: &[f64]) -> Vec<f64> {
        let bound = f64::from(self.config.max_abs_reward);
        let reward = step.reward.clamp(-bound, bound);
        let discount = f64::from(self.config.discount) * step.discount;
        let middles = middles(FRACTIONS);
        let next = self.outputs(target, &step.next, fractions);
        let chosen = match self.config.loss {
            DqnLoss::QLearning | DqnLoss::RegularizedQ => self.chosen(&next),
            _ => self.chosen(&self.outputs(online, &step.next, &middles)),
        };
        match self.config.loss {
            DqnLoss::Categorical => {
                let masses: Vec<f64> = log_softmax(&next[chosen]).into_iter().map(f64::exp).collect();
                self.atoms().projected(reward, discount, &masses)
            }
            DqnLoss::Munchausen => {
                let before = self.outputs(target, &step.seen, &middles).concat();
                let soft = |values: &[f64]| {
                    0.03 * log_sum_exp(&values.iter().map(|value| value / 0.03).collect::<Vec<_>>())
                };
                let likely = (before[step.choice()] - soft(&before)).clamp(-1.0, 0.0);
                vec![reward + 0.9 * likely + discount * soft(&next.concat())]
            }
            _ => next[chosen].iter().map(|value| reward + discount * value).collect(),
        }
    }

    /// Returns the loss of a transition, and the error that determines its priority.
    fn loss(&self, outputs: &[f64], goal: &[f64], fractions: &[f64]) -> (f64, f64) {
        let error = goal[0] - outputs[0];
        match self.config.loss {
            DqnLoss::DoubleQ | DqnLoss::Munchausen => (huber(error), error.abs()),
            DqnLoss::QLearning => (error * error, error.abs()),
            DqnLoss::RegularizedQ => (0.5 * error * error + 0.1 * outputs[0], error.abs()),
            DqnLoss::Categorical => {
                let loss = cross_entropy(goal, outputs);
                (loss, loss)
            }
            DqnLoss::Quantile | DqnLoss::ImplicitQuantile => {
                let of_pair =
                    |tau: f64, error: f64| (tau - f64::from(u8::from(error < 0.0))).abs() * huber(error);
                let of_quantile =
                    |(value, tau): (&f64, &f64)| mean(goal.iter().map(|goal| of_pair(*tau, goal - value)));
                let loss = outputs.iter().zip(fractions).map(of_quantile).sum();
                (loss, loss)
            }
        }
    }

    /// Returns the fractions in single precision, since cosines depend on the rounding.
    #[expect(clippy::cast_possible_truncation, reason = "fractions are float32")]
    fn draw(&mut self, batch: usize) -> [Vec<f64>; 2] {
        let each = match self.config.loss {
            DqnLoss::ImplicitQuantile => self.config.quantile_samples,
            _ => 0,
        };
        [(); 2].map(|()| (0..batch * each).map(|_| f64::from(self.stream.uniform() as f32)).collect())
    }
}

impl Hand for Dqn {
    fn learn(&mut self, experience: &Experience<'_>) -> ExpectedReport {
        let batch = experience.transitions();
        // The noise of the target network is drawn before the noise of the online network.
        let noises = [(); 2].map(|()| self.config.noisy.then(|| factors(&self.learned, &mut self.stream)));
        let [of_target, of_online] = noises;
        let target = perturbed(&self.target, of_target.as_deref());
        let online = perturbed(&self.learned.values, of_online.as_deref());
        let [taus, target_taus] = self.draw(batch.len());
        let each = taus.len() / batch.len();
        let part = |all: &[f64], row: usize| match self.config.loss {
            DqnLoss::ImplicitQuantile => all[row * each..(row + 1) * each].to_vec(),
            _ => middles(self.config.atoms),
        };
        let nets = [self.learned.at(&online), self.learned.at(&target)];
        let goals: Vec<_> = (batch.iter().enumerate())
            .map(|(row, step)| self.goal(nets, step, &part(&target_taus, row)))
            .collect();
        let beta = f64::from(self.config.importance_exponent);
        let weights: Vec<f64> = batch.iter().map(|step| step.probability.powf(-beta)).collect();
        let most = weights.iter().copied().fold(0.0, f64::max);
        let of_row = |at: ParamsView<'_>, row: usize| {
            let (step, taus) = (&batch[row], part(&taus, row));
            self.loss(&self.outputs(at, &step.seen, &taus)[step.choice()], &goals[row], &taus)
        };
        let (loss, gradient) = self.learned.differentiate(|at| {
            let noisy = perturbed(at.all(), of_online.as_deref());
            let at = self.learned.at(&noisy);
            mean((0..batch.len()).map(|row| weights[row] / most * of_row(at, row).0))
        });
        let priorities = (0..batch.len()).map(|row| of_row(nets[0], row).1).collect();
        let counts = self.config.priority_exponent > 0.0;
        let is_due = self.learned.steps.is_multiple_of(self.config.target_update_period);
        self.learned.go(&gradient);
        if is_due {
            self.target.clone_from(&self.learned.values);
        }
        ExpectedReport {
            metrics: vec![("loss", loss)],
            priorities: if counts { priorities } else { Vec::new() },
        }
    }

    fn acting(&self) -> Vec<&Learned> {
        vec![&self.learned]
    }
}

/// Wang et al. 2016, equation 9, for each of an action's outputs.
fn duelling(at: ParamsView<'_>, name: &str, x: &[f64], actions: usize) -> Vec<f64> {
    let value = at.layers(&format!("{name}/value"), x, relu);
    let advantages = at.layers(&format!("{name}/advantage"), x, relu);
    let each = value.len();
    let of = |number: usize| mean((0..actions).map(|action| advantages[action * each + number]));
    advantages.iter().enumerate().map(|(i, a)| value[i % each] + a - of(i % each)).collect()
}

#[expect(clippy::cast_precision_loss, reason = "fractions are few")]
fn middles(count: usize) -> Vec<f64> {
    (0..count).map(|index| (index as f64 + 0.5) / count as f64).collect()
}

/// Returns the factors of the standard deviations, and the positions of factors and standard deviations: f(εᵢ)·f(εⱼ)
/// for weights and f(εⱼ) for biases (Fortunato et al. 2018).
fn factors(learned: &Learned, stream: &mut Stream) -> Vec<(usize, usize, f64)> {
    let mut root = || {
        let number = stream.normal();
        number.abs().sqrt().copysign(number)
    };
    let (mut all, leaves) = (Vec::new(), learned.places());
    for (name, range) in &leaves {
        let Some(layer) = name.strip_suffix("/w") else { continue };
        let place = |kind: &str| {
            leaves.iter().find(|(name, _)| *name == format!("{layer}/{kind}")).unwrap().1.clone()
        };
        let (bias, sigmas) = (place("b"), [place("w/sigma"), place("b/sigma")]);
        let inputs = range.len() / bias.len();
        let by_input: Vec<f64> = (0..inputs).map(|_| root()).collect();
        let by_output: Vec<f64> = (0..bias.len()).map(|_| root()).collect();
        for (number, place) in range.clone().enumerate() {
            let factor = by_input[number / bias.len()] * by_output[number % bias.len()];
            all.push((place, sigmas[0].start + number, factor));
        }
        for (number, place) in bias.enumerate() {
            all.push((place, sigmas[1].start + number, by_output[number]));
        }
    }
    all
}

/// Returns the parameters with noise.
fn perturbed(values: &[f64], factors: Option<&[(usize, usize, f64)]>) -> Vec<f64> {
    let mut noisy = values.to_vec();
    for (place, sigma, factor) in factors.unwrap_or_default() {
        noisy[*place] += values[*sigma] * factor;
    }
    noisy
}

/// Returns the initial parameters of the network.
fn begun(config: &DqnConfig, inputs: usize, actions: usize, key: Key) -> Params {
    let DqnConfig { hidden, duelling, .. } = config;
    let (mut layout, last) = (Layout::new(), *hidden.last().unwrap());
    // The means of noisy layers are uniform in ±1/√inputs.
    let init = if config.noisy { LinearInit::PyTorch } else { LinearInit::LecunNormal };
    let head = |builder: relive_nn::NetworkBuilder<'_>, before: &[usize], each: usize| {
        let builder = builder.init(init).mlp(before, Activation::Relu);
        match duelling {
            true => builder.duelling_atoms(&[last], actions, each).build(),
            false => builder.mlp(&[last], Activation::Relu).linear(actions * each).build(),
        }
    };
    match config.loss {
        DqnLoss::ImplicitQuantile => {
            let torso = Network::builder(&mut layout, "q/torso", inputs).init(init);
            torso.mlp(hidden, Activation::Relu).build();
            let embedding = Network::builder(&mut layout, "q/embedding", COSINES).init(init);
            embedding.mlp(&[last], Activation::Relu).build();
            head(Network::builder(&mut layout, "q/head", last), &[], 1);
        }
        DqnLoss::Categorical | DqnLoss::Quantile => {
            head(Network::builder(&mut layout, "q", inputs), &hidden[..hidden.len() - 1], config.atoms);
        }
        _ => drop(head(Network::builder(&mut layout, "q", inputs), &hidden[..hidden.len() - 1], 1)),
    }
    if config.noisy {
        let leaves: Vec<_> = layout.leaves().to_vec();
        for weight in leaves.iter().filter(|leaf| leaf.name().ends_with("/w")) {
            let &[inputs, outputs] = weight.shape() else { panic!("{weight:?}") };
            #[expect(clippy::cast_precision_loss, reason = "inputs are few")]
            let init = Init::Constant(0.5 / (inputs as f32).sqrt());
            layout.add(&format!("{}/sigma", weight.name()), &[inputs, outputs], init);
            let bias = weight.name().strip_suffix('w').unwrap();
            layout.add(&format!("{bias}b/sigma"), &[outputs], init);
        }
    }
    layout.init(key)
}
