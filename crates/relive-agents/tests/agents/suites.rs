//! The suites of all agents: one call for each agent, with its particulars.

use std::path::Path;
use std::sync::Arc;

use relive_agents::{
    A2cConfig, A3cConfig, ApexConfig, AppoConfig, BcConfig, BcqConfig, CqlConfig, CrrConfig, D4pgConfig,
    DdpgConfig, DmpoConfig, DqfdConfig, DqnConfig, DqnLoss, ImpalaConfig, IqlConfig, MctsConfig, MctsModel,
    MpoConfig, PpoConfig, R2d2Config, R2d3Config, RainbowConfig, SacConfig, Td3BcConfig, Td3Config,
};
use relive_agents::{Demonstrations, NAMES};
use relive_rl::Agent;

use crate::by_hand::{
    MakeHand, actor_critic, bcq, deterministic, dqn, fitted, mcts, mpo, r2d2, soft, v_trace,
};
use crate::common::{small_dqn, small_mcts, small_ppo, small_r2d2, small_sac};
use crate::recorded::{noisy_catches, pendulum};
use crate::suite::{Case, suite};

const CART_POLE: &str = "CartPole-v1";
const PENDULUM: &str = "Pendulum-v1";

type Hand = (Arc<dyn Agent>, &'static str, MakeHand);

/// Returns an agent that acts.
fn acting(agent: impl Agent + 'static, environments: &'static [&'static str], by_hand: Vec<Hand>) -> Case {
    Case { agent: Arc::new(agent), environments, by_hand, recorded: None, shown: None }
}

/// Returns an agent that learns from recorded episodes.
fn recorded(
    agent: impl Agent + 'static,
    environments: &'static [&'static str],
    by_hand: Vec<Hand>,
    record: fn(&Path),
) -> Case {
    Case { recorded: Some(record), ..acting(agent, environments, by_hand) }
}

fn hand(agent: impl Agent + 'static, environment: &'static str, hand: MakeHand) -> Hand {
    (Arc::new(agent), environment, hand)
}

/// Returns settings with which a few batches reveal all terms of a loss: a discount far from 1, and target networks
/// that are updated.
fn tiny_dqn() -> DqnConfig {
    DqnConfig {
        batch_size: 6,
        n_step: 2,
        discount: 0.8,
        min_replay_size: 12,
        target_update_period: 2,
        importance_exponent: 0.6,
        hidden: vec![6],
        atoms: 7,
        value_range: [-1.0, 4.0],
        quantile_samples: 3,
        ..small_dqn()
    }
}

#[test]
fn dqn_meets_the_agent_contract() {
    use DqnLoss::{Categorical, Munchausen, QLearning, Quantile, RegularizedQ};
    let of = |loss| {
        let config = DqnConfig { loss, ..tiny_dqn() };
        hand(config.clone(), CART_POLE, dqn::hand(&config))
    };
    let losses = [DqnLoss::DoubleQ, QLearning, RegularizedQ, Munchausen, Categorical, Quantile];
    suite(acting(small_dqn(), &[CART_POLE, "catch/0"], losses.map(of).into()));
}

#[test]
fn implicit_quantiles_meet_the_agent_contract() {
    let of = |duelling, noisy| {
        let config = DqnConfig {
            loss: DqnLoss::ImplicitQuantile,
            // With few features, all may be 0, which puts all later units at the kink of ReLU; noise moves them away
            // from it.
            hidden: vec![if noisy { 4 } else { 16 }],
            duelling,
            noisy,
            ..tiny_dqn()
        };
        hand(config.clone(), CART_POLE, dqn::hand(&config))
    };
    let iqn = DqnConfig { loss: DqnLoss::ImplicitQuantile, duelling: true, noisy: true, ..small_dqn() };
    suite(acting(iqn, &[CART_POLE], vec![of(false, false), of(true, true)]));
}

#[test]
fn rainbow_meets_the_agent_contract() {
    let of = |config: DqnConfig| {
        let loss = DqnLoss::Categorical;
        DqnConfig { loss, noisy: true, epsilon: 0.0, duelling: true, max_gradient_norm: Some(0.5), ..config }
    };
    let tiny = hand(RainbowConfig(of(tiny_dqn())), CART_POLE, dqn::hand(&of(tiny_dqn())));
    suite(acting(RainbowConfig(of(small_dqn())), &[CART_POLE], vec![tiny]));
}

#[test]
fn apex_meets_the_agent_contract() {
    let of = |config| DqnConfig { replay_shards: 2, duelling: true, max_gradient_norm: Some(0.1), ..config };
    let tiny = hand(ApexConfig(of(tiny_dqn())), CART_POLE, dqn::hand(&of(tiny_dqn())));
    suite(acting(ApexConfig(of(small_dqn())), &[CART_POLE], vec![tiny]));
}

#[test]
fn dqfd_meets_the_agent_contract() {
    let demonstrations = Demonstrations { ratio: 0.5, ..Demonstrations::default() };
    let of = |config| DqnConfig { demonstrations: demonstrations.clone(), ..config };
    let tiny = of(DqnConfig { hidden: vec![3], ..tiny_dqn() });
    let tiny = hand(DqfdConfig(tiny.clone()), "deep_sea/0", dqn::hand(&tiny));
    let case = acting(DqfdConfig(of(small_dqn())), &["deep_sea/0"], vec![tiny]);
    let shown = |demonstrations| -> Arc<dyn Agent> {
        Arc::new(DqfdConfig(DqnConfig { demonstrations, ..small_dqn() }))
    };
    suite(Case { shown: Some(shown), ..case });
}

fn tiny_r2d2() -> R2d2Config {
    R2d2Config {
        batch_size: 4,
        discount: 0.8,
        n_step: 2,
        min_replay_size: 6,
        target_update_period: 2,
        importance_exponent: 0.6,
        hidden: vec![3],
        lstm_units: 3,
        head: vec![3],
        ..small_r2d2()
    }
}

#[test]
fn r2d2_meets_the_agent_contract() {
    let plain = R2d2Config { duelling: false, max_gradient_norm: Some(0.1), ..tiny_r2d2() };
    let of = |config: R2d2Config| hand(config.clone(), CART_POLE, r2d2::hand(&config));
    suite(acting(small_r2d2(), &[CART_POLE, "catch/0"], vec![of(tiny_r2d2()), of(plain)]));
}

#[test]
fn r2d3_meets_the_agent_contract() {
    let demonstrations = Demonstrations { ratio: 0.5, ..Demonstrations::default() };
    let of = |config| R2d2Config { demonstrations: demonstrations.clone(), ..config };
    let tiny = hand(R2d3Config(of(tiny_r2d2())), "deep_sea/0", r2d2::hand(&of(tiny_r2d2())));
    let case = acting(R2d3Config(of(small_r2d2())), &["deep_sea/0"], vec![tiny]);
    let shown = |demonstrations| -> Arc<dyn Agent> {
        Arc::new(R2d3Config(R2d2Config { demonstrations, ..small_r2d2() }))
    };
    suite(Case { shown: Some(shown), ..case });
}

#[test]
fn impala_meets_the_agent_contract() {
    let (sequence_length, num_envs, batch_size, hidden) = (7, 4, 8, vec![8]);
    let small = ImpalaConfig { sequence_length, num_envs, batch_size, hidden, ..ImpalaConfig::default() };
    let tiny = |lstm_units| ImpalaConfig {
        discount: 0.8,
        trace_decay: 0.7,
        entropy_cost: 0.1,
        hidden: vec![4],
        lstm_units,
        ..small.clone()
    };
    let of = |units, environment| hand(tiny(units), environment, v_trace::impala(&tiny(units)));
    let by_hand = vec![of(3, CART_POLE), of(3, PENDULUM), of(0, CART_POLE)];
    suite(acting(small.clone(), &[CART_POLE, "catch/0", PENDULUM], by_hand));
}

#[test]
fn appo_meets_the_agent_contract() {
    let (sequence_length, num_envs, batch_size, hidden) = (7, 4, 8, vec![8]);
    let small = AppoConfig { sequence_length, num_envs, batch_size, hidden, ..AppoConfig::default() };
    let tiny = AppoConfig {
        discount: 0.8,
        entropy_cost: 0.1,
        epochs: 3,
        clip: 0.01,
        max_gradient_norm: Some(0.1),
        learning_rate: 1e-2,
        hidden: vec![4],
        ..small.clone()
    };
    let of = |environment| hand(tiny.clone(), environment, v_trace::appo(&tiny));
    suite(acting(small, &[CART_POLE, PENDULUM], vec![of(CART_POLE), of(PENDULUM)]));
}

#[test]
fn ppo_meets_the_agent_contract() {
    let small = PpoConfig { normalize_observations: true, normalize_rewards: true, ..small_ppo() };
    let tiny = PpoConfig {
        num_envs: 3,
        num_steps: 10,
        minibatch_size: 16,
        discount: 0.8,
        clip: 0.01,
        entropy_cost: 0.1,
        learning_rate: 1e-2,
        hidden: vec![4],
        ..small_ppo()
    };
    let of = |environment| hand(tiny.clone(), environment, actor_critic::ppo(&tiny));
    suite(acting(small, &[CART_POLE, PENDULUM, "catch/0"], vec![of(CART_POLE), of(PENDULUM)]));
}

fn tiny_a2c() -> A2cConfig {
    A2cConfig {
        num_envs: 3,
        num_steps: 9,
        discount: 0.8,
        entropy_cost: 0.1,
        hidden: vec![4],
        ..A2cConfig::default()
    }
}

#[test]
fn a2c_meets_the_agent_contract() {
    let of = |environment| hand(tiny_a2c(), environment, actor_critic::a2c(&tiny_a2c()));
    let small = A2cConfig { hidden: vec![16], ..A2cConfig::default() };
    suite(acting(small, &[CART_POLE, PENDULUM], vec![of(CART_POLE), of(PENDULUM)]));
}

#[test]
fn a3c_meets_the_agent_contract() {
    let of = |environment| hand(A3cConfig(tiny_a2c()), environment, actor_critic::a2c(&tiny_a2c()));
    let small = A3cConfig(A2cConfig { hidden: vec![16], ..A2cConfig::default() });
    suite(acting(small, &[CART_POLE, PENDULUM], vec![of(CART_POLE), of(PENDULUM)]));
}

/// A small configuration of an agent with a policy and critics.
macro_rules! small {
    ($config:ident { $($field:ident: $value:expr),* $(,)? }) => {
        $config {
            batch_size: 16,
            samples_per_insert: 8.0,
            min_replay_size: 50,
            hidden: vec![16],
            critic_hidden: vec![16],
            $($field: $value,)*
            ..$config::default()
        }
    };
}

/// An even smaller configuration for the independent computation, with a discount far from 1.
macro_rules! tiny {
    ($config:ident { $($field:ident: $value:expr),* $(,)? }) => {
        $config {
            batch_size: 6,
            discount: 0.8,
            hidden: vec![4],
            critic_hidden: vec![4],
            ..small!($config { $($field: $value),* })
        }
    };
}

#[test]
fn ddpg_meets_the_agent_contract() {
    let tiny = tiny!(DdpgConfig {
        n_step: 2,
        target_update_period: 2,
        max_action_gradient: Some(0.05),
        max_gradient_norm: Some(0.1)
    });
    let tiny = hand(tiny.clone(), PENDULUM, deterministic::ddpg(&tiny));
    suite(acting(small!(DdpgConfig { target_update_period: 10 }), &[PENDULUM], vec![tiny]));
}

#[test]
fn d4pg_meets_the_agent_contract() {
    let tiny = tiny!(D4pgConfig {
        n_step: 2,
        target_update_period: 2,
        atoms: 7,
        value_range: [-30.0, 0.0],
        normalize_observations: true
    });
    let tiny = hand(tiny.clone(), PENDULUM, deterministic::d4pg(&tiny));
    suite(acting(small!(D4pgConfig { normalize_observations: true, atoms: 11 }), &[PENDULUM], vec![tiny]));
}

#[test]
fn td3_meets_the_agent_contract() {
    let tiny = tiny!(Td3Config { tau: 0.3, target_noise: 0.4, target_noise_clip: 0.3 });
    let tiny = hand(tiny.clone(), PENDULUM, deterministic::td3(&tiny));
    suite(acting(small!(Td3Config { noise_correlation: 0.9 }), &[PENDULUM], vec![tiny]));
}

#[test]
fn mpo_meets_the_agent_contract() {
    let tiny = tiny!(MpoConfig {
        samples: 5,
        target_policy_period: 2,
        target_critic_period: 2,
        epsilon_mean: 0.01,
        epsilon_stddev: 0.01,
        policy_learning_rate: 0.05,
        dual_learning_rate: 0.1
    });
    let tiny = hand(tiny.clone(), PENDULUM, mpo::mpo(&tiny));
    suite(acting(small!(MpoConfig { samples: 5, target_policy_period: 10 }), &[PENDULUM], vec![tiny]));
}

#[test]
fn dmpo_meets_the_agent_contract() {
    let tiny = tiny!(DmpoConfig {
        samples: 5,
        target_policy_period: 2,
        target_critic_period: 2,
        atoms: 7,
        value_range: [-30.0, 0.0],
        epsilon_mean: 0.01,
        epsilon_stddev: 0.01,
        policy_learning_rate: 0.05,
        dual_learning_rate: 0.1
    });
    let tiny = hand(tiny.clone(), PENDULUM, mpo::dmpo(&tiny));
    let small = small!(DmpoConfig { samples: 5, atoms: 11, normalize_observations: true });
    suite(acting(small, &[PENDULUM], vec![tiny]));
}

#[test]
fn sac_meets_the_agent_contract() {
    let tiny = |critics| SacConfig {
        batch_size: 6,
        n_step: 2,
        discount: 0.8,
        tau: 0.3,
        hidden: vec![4],
        critics,
        normalize_observations: critics > 2,
        ..small_sac()
    };
    let of = |critics| hand(tiny(critics), PENDULUM, soft::sac(&tiny(critics)));
    suite(acting(small_sac(), &[PENDULUM], vec![of(2), of(3)]));
}

#[test]
fn sac_with_more_critics_meets_the_agent_contract() {
    let redq = SacConfig { critics: 3, normalize_observations: true, noise_correlation: 0.5, ..small_sac() };
    let tiny =
        SacConfig { batch_size: 6, hidden: vec![4], critics_of_target: 1, discount: 0.8, ..redq.clone() };
    let tiny = hand(tiny.clone(), PENDULUM, soft::sac(&tiny));
    suite(acting(redq, &["control/cartpole-swingup"], vec![tiny]));
}

#[test]
fn mcts_meets_the_agent_contract() {
    let tiny = MctsConfig { discount: 0.8, hidden: vec![4], batch_size: 6, ..small_mcts() };
    let tiny = hand(tiny.clone(), CART_POLE, mcts::hand(&tiny));
    suite(acting(small_mcts(), &[CART_POLE, "catch/0"], vec![tiny]));
}

#[test]
fn mcts_with_a_learned_model_meets_the_agent_contract() {
    let small = MctsConfig { model: MctsModel::Learned, model_hidden: vec![8], ..small_mcts() };
    let tiny =
        MctsConfig { discount: 0.8, hidden: vec![4], model_hidden: vec![4], batch_size: 6, ..small.clone() };
    let tiny = hand(tiny.clone(), CART_POLE, mcts::hand(&tiny));
    suite(acting(small, &[CART_POLE, "catch/0"], vec![tiny]));
}

#[test]
fn bc_with_continuous_actions_meets_the_agent_contract() {
    let small = BcConfig { batch_size: 16, hidden: vec![16], ..BcConfig::default() };
    let tiny = BcConfig { batch_size: 6, hidden: vec![4], normalize_observations: true, ..small.clone() };
    suite(recorded(small, &[PENDULUM], vec![hand(tiny.clone(), PENDULUM, fitted::bc(&tiny))], pendulum));
}

#[test]
fn bc_with_discrete_actions_meets_the_agent_contract() {
    let small = BcConfig { batch_size: 16, hidden: vec![16], ..BcConfig::default() };
    let tiny = BcConfig { batch_size: 6, hidden: vec![4], ..small.clone() };
    suite(recorded(small, &["catch/0"], vec![hand(tiny.clone(), "catch/0", bcq::bc(&tiny))], noisy_catches));
}

#[test]
fn bcq_meets_the_agent_contract() {
    let small = BcqConfig { batch_size: 16, hidden: vec![16], ..BcqConfig::default() };
    let tiny = BcqConfig {
        batch_size: 6,
        hidden: vec![4],
        discount: 0.8,
        tau: 0.3,
        threshold: 0.9,
        ..small.clone()
    };
    suite(recorded(small, &["catch/0"], vec![hand(tiny.clone(), "catch/0", bcq::bcq(&tiny))], noisy_catches));
}

#[test]
fn cql_meets_the_agent_contract() {
    let of = |imitation_steps, hidden: usize| CqlConfig {
        batch_size: 8,
        discount: 0.8,
        tau: 0.3,
        samples: 2,
        imitation_steps,
        temperature: 0.1,
        hidden: vec![hidden],
        ..CqlConfig::default()
    };
    let tiny = hand(of(2, 4), PENDULUM, soft::cql(&of(2, 4)));
    suite(recorded(of(20, 16), &[PENDULUM], vec![tiny], pendulum));
}

#[test]
fn crr_meets_the_agent_contract() {
    use relive_agents::CrrWeight::{All, Binary, Exp};
    let of = |weight, hidden: usize| CrrConfig {
        batch_size: 8,
        discount: 0.8,
        target_update_period: 2,
        weight,
        temperature: 0.02,
        max_weight: 1.2,
        hidden: vec![hidden],
        ..CrrConfig::default()
    };
    let tiny = |weight| hand(of(weight, 4), PENDULUM, fitted::crr(&of(weight, 4)));
    suite(recorded(of(Binary, 16), &[PENDULUM], [Exp, Binary, All].map(tiny).into(), pendulum));
}

#[test]
fn iql_meets_the_agent_contract() {
    let of = |stddev, hidden: usize| IqlConfig {
        batch_size: 8,
        discount: 0.8,
        tau: 0.3,
        stddev,
        normalize_observations: true,
        hidden: vec![hidden],
        ..IqlConfig::default()
    };
    let tiny = |stddev| hand(of(stddev, 4), PENDULUM, fitted::iql(&of(stddev, 4)));
    suite(recorded(of(None, 16), &[PENDULUM], [None, Some(0.3)].map(tiny).into(), pendulum));
}

#[test]
fn td3_bc_meets_the_agent_contract() {
    let of = |hidden: usize| Td3BcConfig {
        batch_size: 8,
        discount: 0.8,
        tau: 0.3,
        hidden: vec![hidden],
        critic_hidden: vec![hidden],
        ..Td3BcConfig::default()
    };
    let tiny = hand(of(4), PENDULUM, deterministic::td3_bc(&of(4)));
    suite(recorded(of(16), &[PENDULUM], vec![tiny], pendulum));
}

#[test]
fn every_agent_has_a_suite() {
    let here = include_str!("suites.rs");
    for name in NAMES {
        let test = format!("fn {}_", name.replace('-', "_"));
        assert!(here.contains(&test), "there is no suite of {name}");
    }
}
