//! Losses, compared with numbers recorded from trfl, rlax and Acme.

use crate::common::assert_close;
use relive_nn::heads::Gaussians;
use relive_nn::losses::{
    self, DpgClip, Mpo, MpoBatch, MpoDuals, MpoGradients, Normals, RetraceSequence, Selected, Support,
    VTraceClip,
};
use relive_nn::tape::{self, Gradients, Weights};
use relive_nn::{Key, Layout};
use serde_json::Value;

/// The numbers were recorded with seven digits.
const TOLERANCE: f32 = 1e-6;

struct Case(Value);

impl Case {
    fn named(name: &str) -> Self {
        let text = include_str!("../golden/losses.json");
        let all: Value = serde_json::from_str(text).expect("valid JSON");
        Self(all[name].clone())
    }

    fn of(&self, key: &str) -> Self {
        assert!(!self.0[key].is_null(), "no {key} in {}", self.0);
        Self(self.0[key].clone())
    }

    fn numbers(&self, key: &str) -> Vec<f32> {
        fn flatten(value: &Value, into: &mut Vec<f32>) {
            match value {
                Value::Array(values) => values.iter().for_each(|value| flatten(value, into)),
                #[allow(clippy::cast_possible_truncation)]
                number => into.push(number.as_f64().expect("a number") as f32),
            }
        }
        let mut numbers = Vec::new();
        flatten(&self.of(key).0, &mut numbers);
        numbers
    }

    fn number(&self, key: &str) -> f32 {
        self.numbers(key)[0]
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn indices(&self, key: &str) -> Vec<usize> {
        self.numbers(key).into_iter().map(|number| number as usize).collect()
    }

    fn agrees(&self, key: &str, ours: &[f32]) {
        assert_close(key, ours, &self.numbers(key), TOLERANCE);
    }
}

#[test]
fn double_q() {
    let case = Case::named("double_q");
    let bound = case.number("max_abs_reward");
    let rewards: Vec<f32> = case.numbers("r").iter().map(|r| r.clamp(-bound, bound)).collect();
    let (q, actions) = (case.numbers("q_tm1"), case.indices("a"));
    let (values, selector) = (case.numbers("q_t_value"), case.numbers("q_t_selector"));
    let targets = losses::double_q_targets(&rewards, &case.numbers("d"), &values, &selector);
    let weights = losses::importance_weights(&case.numbers("probs"), case.number("is_exponent"));
    case.agrees("is_weights", &weights);
    let selected = Selected { actions: &actions, weights: &weights };
    let mut by_q = vec![9.0; q.len()];
    let found = losses::q_loss(&q, selected, &targets, 1.0, &mut by_q);
    case.agrees("td_error", &found.rows);
    case.agrees("loss", &[found.loss]);
    let huber: Vec<f32> = found.rows.iter().map(|error| losses::huber(*error, 1.0)).collect();
    case.agrees("huber", &huber);
    check_gradient(&q, &by_q, |q, by_q| losses::q_loss(q, selected, &targets, 1.0, by_q).loss);
}

/// Compares a gradient with finite differences of the loss.
fn check_gradient(at: &[f32], gradient: &[f32], loss: impl Fn(&[f32], &mut [f32]) -> f32) {
    const STEP: f32 = 1e-2;
    let mut ignored = vec![0.0; at.len()];
    for index in 0..at.len() {
        let mut moved = |by: f32| {
            let mut at = at.to_vec();
            at[index] += by;
            loss(&at, &mut ignored)
        };
        let difference = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
        assert!((difference - gradient[index]).abs() < 4e-3, "{index}: {difference}, {}", gradient[index]);
    }
}

#[test]
fn vtrace() {
    let case = Case::named("vtrace");
    let (v, r, d) = (case.numbers("v"), case.numbers("r"), case.numbers("discount"));
    let found = losses::vtrace(&v, &r, &d, &case.numbers("rho"), VTraceClip::default());
    case.agrees("errors", &found.errors);
    case.agrees("pg_advantage", &found.pg_advantages);
    case.agrees("q_estimate", &found.q_estimates);
    let targets: Vec<f32> = found.errors.iter().zip(&v).map(|(error, v)| error + v).collect();
    case.agrees("vs_trfl", &targets);
    case.agrees("pg_trfl", &found.pg_advantages);
}

#[test]
fn retrace() {
    let case = Case::named("retrace");
    let sequence = RetraceSequence {
        q_tm1: &case.numbers("q_tm1"),
        q_t: &case.numbers("q_t"),
        a_tm1: &case.indices("a_tm1"),
        a_t: &case.indices("a_t"),
        rewards: &case.numbers("r"),
        discounts: &case.numbers("d"),
        pi_t: &case.numbers("pi"),
        mu_t: &case.numbers("mu"),
    };
    case.agrees("td", &losses::retrace_errors(sequence, case.number("lam")));
}

#[test]
fn off_policy_returns() {
    let case = Case::named("offpolicy_q_v");
    let (q, v, r) = (case.numbers("q_t"), case.numbers("v_t"), case.numbers("r"));
    let found = losses::off_policy_returns(&q, &v, &r, &case.numbers("d"), &case.numbers("c"));
    case.agrees("returns", &found);
}

#[test]
fn categorical_projection() {
    let support = Support::new(-10.0, 10.0, 11);
    let case = Case::named("l2_project");
    let logits: Vec<f32> = case.numbers("p").iter().map(|p| p.ln()).collect();
    let (r, d) = ([case.number("reward")], [case.number("discount")]);
    let projected = losses::categorical_targets(support, &r, &d, &logits);
    assert_close("projected", &projected, &case.numbers("projected"), 3e-6);

    let td = Case::named("categorical_td");
    let logits = td.numbers("logits_tm1");
    let selected = Selected { actions: &[0], weights: &[1.0] };
    let mut by_logits = vec![9.0; 11];
    let found = losses::categorical_loss(support, &logits, selected, &projected, &mut by_logits);
    td.agrees("loss", &[found.loss]);
    check_gradient(&logits, &by_logits, |logits, by| {
        losses::categorical_loss(support, logits, selected, &projected, by).loss
    });

    let clipped = losses::categorical_targets(support, &[25.0], &[0.0], &[0.0; 11]);
    Case::named("l2_project_clip").agrees("projected", &clipped);
}

#[test]
fn value_rescaling() {
    let case = Case::named("value_rescale");
    let (x, epsilon) = (case.numbers("x"), case.number("eps"));
    let h: Vec<f32> = x.iter().map(|x| losses::rescale(*x, epsilon)).collect();
    case.agrees("h", &h);
    let back: Vec<f32> = h.iter().map(|h| losses::unscale(*h, epsilon)).collect();
    // This crate's function is the exact inverse; the recorded one loses digits in f32.
    assert_close("inverse", &back, &x, 3e-7);
    assert_close("recorded", &back, &case.numbers("h_inv_of_h_f32"), 1e-4);
}

#[test]
fn r2d2() {
    let case = Case::named("r2d2_nstep");
    let (q, target_q) = (case.numbers("q"), case.numbers("target_q"));
    let (rewards, discounts, n) = (case.numbers("rewards"), case.numbers("pcont"), case.indices("n")[0]);
    let targets = losses::transformed_n_step_targets(&q, &target_q, &rewards, &discounts, n);
    let raw: Vec<f32> = targets.iter().map(|target| losses::unscale(*target, 1e-3)).collect();
    assert_close("raw_targets", &raw, &case.numbers("raw_targets"), 1e-4);
    let actions = case.indices("actions");
    let errors: Vec<f32> =
        targets.iter().enumerate().map(|(t, target)| target - q[t * 3 + actions[t]]).collect();
    // The recorded inverse loses digits in f32.
    assert_close("errors", &errors, &case.numbers("td_rlax_target_minus_q"), 2e-5);
    let loss: f32 = errors.iter().map(|error| losses::huber(*error, f32::INFINITY)).sum();
    assert!((loss - case.number("loss_sum")).abs() < 1e-3, "{loss}");
    assert_close("priority", &[losses::sequence_priority(&errors, 0.9)], &case.numbers("priority_0p9"), 1e-5);
}

#[test]
fn n_step_bootstrap() {
    let case = Case::named("n_step_bootstrap");
    let (r, d, v) = (case.numbers("r"), case.numbers("d"), case.numbers("v"));
    case.agrees("ret", &losses::n_step_returns(&r, &d, &v, case.indices("n")[0]));
}

#[test]
fn generalized_advantages() {
    let case = Case::named("gae");
    let (v, r, d) = (case.numbers("values"), case.numbers("r"), case.numbers("d"));
    case.agrees("adv", &losses::generalized_advantages(&v, &r, &d, case.number("lam")));
}

#[test]
fn deterministic_policy_gradient() {
    let case = Case::named("dpg");
    let (a, w) = (case.numbers("a"), case.numbers("w"));
    // The critic is Σ w·a².
    let dqda: Vec<f32> = a.iter().zip(&w).map(|(a, w)| 2.0 * w * a).collect();
    let mut by_actions = vec![9.0; a.len()];
    let clip = DpgClip::Norm(case.number("dqda_clip_norm"));
    case.agrees("loss", &losses::deterministic_policy_gradient(&dqda, 2, clip, &mut by_actions));
    // The recorded gradient is for the sum over both samples, and this crate's for the mean.
    let summed: Vec<f32> = by_actions.iter().map(|g| 2.0 * g).collect();
    case.agrees("grad_a", &summed);
}

#[test]
fn quantile_regression() {
    let case = Case::named("quantile_q");
    // The recorded order is [quantile, action]; this crate orders by action.
    let by_action = |key: &str| -> Vec<f32> {
        let rows = case.numbers(key);
        (0..3).flat_map(|action| (0..4).map(move |tau| (tau, action))).map(|(t, a)| rows[t * 3 + a]).collect()
    };
    let (theta, next) = (by_action("dist_tm1"), by_action("dist_t"));
    let targets = losses::quantile_targets(&case.numbers("r"), &case.numbers("d"), 4, &next, &next);
    let (actions, kappa) = (case.indices("a"), case.number("huber"));
    let selected = Selected { actions: &actions, weights: &[1.0] };
    let mut by_theta = vec![9.0; theta.len()];
    let found = losses::quantile_loss(&theta, selected, &targets, kappa, &mut by_theta);
    case.agrees("loss", &[found.loss]);
    check_gradient(&theta, &by_theta, |theta, by| {
        losses::quantile_loss(theta, selected, &targets, kappa, by).loss
    });
}

#[test]
fn mpo() {
    let case = Case::named("mpo");
    let mut layout = Layout::new();
    let names = MpoDuals::new(&mut layout, "duals", 2);
    let mut duals = layout.init(Key::from_seed(0));
    assert_eq!(duals.values(), [10.0, 10.0, 10.0, 10.0, 1000.0, 1000.0]);
    let raw = ["log_temperature", "log_penalty_temperature", "log_alpha_mean", "log_alpha_stddev"];
    let [temperature, penalty, mean, stddev] = raw.map(|key| case.number(key));
    duals.values_mut().copy_from_slice(&[temperature, penalty, mean, mean, stddev, stddev]);

    let weights = Weights::tracked(&duals);
    let online = ["online_mean", "online_std"].map(|key| tape::variable(case.numbers(key), [3, 2]));
    let target = ["target_mean", "target_std"].map(|key| tape::constant(case.numbers(key), [3, 2]));
    let gaussians = |[mean, stddev]: [tape::Tensor<2>; 2]| Gaussians { mean, stddev };
    let batch = MpoBatch { actions: &case.numbers("actions"), q: &case.numbers("q"), samples: 5 };
    let (policy, target) = (gaussians(online.clone()), gaussians(target));
    let found = Mpo::default().loss((&names, &weights), &policy, &target, batch);

    let stats = case.of("stats");
    case.agrees("loss", &tape::values(found.loss.clone()));
    // Acme's `loss_policy` is the total loss.
    stats.agrees("loss_policy", &tape::values(found.loss.clone()));
    assert_close("alpha", &[found.alpha], &stats.numbers("loss_alpha"), 3e-6);
    stats.agrees("loss_temperature", &[found.temperature]);
    assert_close("kl_mean", &[found.kl_mean_rel], &stats.numbers("kl_mean_rel"), 3e-4);
    assert_close("kl_stddev", &[found.kl_stddev_rel], &stats.numbers("kl_stddev_rel"), 3e-4);

    let mut gradients = Gradients::of(&found.loss);
    for (tensor, key) in online.iter().zip(["grad_mean", "grad_std"]) {
        assert_close(key, &gradients.by_tensor(tensor), &case.numbers(key), 3e-6);
    }
    let dual = case.of("dual_grads");
    let recorded: Vec<f32> = raw.iter().flat_map(|key| dual.numbers(&format!("MPO/{key}:0"))).collect();
    assert_close("duals", &gradients.by_weights(&weights), &recorded, 3e-6);

    // The same loss in closed form.
    let (mut by_means, mut by_stddevs, mut by_duals) = ([9.0; 6], [9.0; 6], [9.0; 6]);
    let mut into =
        MpoGradients { by_means: &mut by_means, by_stddevs: &mut by_stddevs, by_duals: &mut by_duals };
    let [means, stddevs] = ["online_mean", "online_std"].map(|key| case.numbers(key));
    let online = Normals { means: &means, stddevs: &stddevs };
    let [means, stddevs] = ["target_mean", "target_std"].map(|key| case.numbers(key));
    let target = Normals { means: &means, stddevs: &stddevs };
    assert_eq!(duals.values().len(), MpoDuals::len(2));
    let closed = Mpo::default().gradient(duals.values(), online, target, batch, &mut into);
    case.agrees("loss", &[closed.loss]);
    assert_close("means", &by_means, &case.numbers("grad_mean"), 3e-6);
    assert_close("stddevs", &by_stddevs, &case.numbers("grad_std"), 3e-6);
    assert_close("duals", &by_duals, &recorded, 3e-6);
    assert_close("kl_mean", &[closed.kl_mean_rel], &stats.numbers("kl_mean_rel"), 3e-4);
    assert_close("kl_stddev", &[closed.kl_stddev_rel], &stats.numbers("kl_stddev_rel"), 3e-4);
}
