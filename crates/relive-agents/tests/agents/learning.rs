//! Agents learn their tasks.

use std::sync::Arc;

use relive_agents::{
    A2cConfig, AppoConfig, D4pgConfig, DqnConfig, DqnLoss, ImpalaConfig, PpoConfig, R2d2Config, SacConfig,
};
use relive_rl::Agent;
use relive_rl::run::{Evaluation, Report, RunOptions};

use crate::common::{options, run};

fn mean_return(agent: impl Agent + 'static, environment: &str, env_steps: u64) -> f64 {
    let agent: Arc<dyn Agent> = Arc::new(agent);
    run(&agent, &options(environment, env_steps, 1)).unwrap().0.summary.mean_return_last_100
}

#[test]
fn ppo_balances_the_pole() {
    let found = mean_return(PpoConfig::for_environment("CartPole-v1"), "CartPole-v1", 100_000);
    assert!(found >= 475.0, "{found}");
}

#[test]
fn ppo_swings_the_pendulum_up() {
    let found = mean_return(PpoConfig::for_environment("Pendulum-v1"), "Pendulum-v1", 100_000);
    assert!(found >= -400.0, "{found}");
}

#[test]
fn implicit_quantiles_learn_to_catch() {
    let iqn = DqnConfig { loss: DqnLoss::ImplicitQuantile, batch_size: 64, ..DqnConfig::default() };
    let found = mean_return(iqn, "catch/0", 9_000);
    assert!(found >= 0.6, "{found}");
}

#[test]
fn a2c_learns_to_catch() {
    let found = mean_return(A2cConfig::default(), "catch/0", 40_000);
    assert!(found >= 0.5, "{found}");
}

/// Returns the mean return of ten episodes of the pendulum without exploration, after this many training steps.
fn swung_up(agent: impl Agent + 'static, env_steps: u64) -> f64 {
    let agent: Arc<dyn Agent> = Arc::new(agent);
    let evaluation = Some(Evaluation { every: env_steps, episodes: 10 });
    let options = RunOptions { evaluation, ..options("Pendulum-v1", env_steps, 1) };
    let shown = run(&agent, &options).unwrap().1.into_iter().filter_map(|report| match report {
        Report::Evaluator(episode) => Some(episode.episode_return),
        _ => None,
    });
    let shown: Vec<f64> = shown.collect();
    assert_eq!(shown.len(), 10);
    shown.iter().sum::<f64>() / 10.0
}

#[test]
fn sac_swings_the_pendulum_up() {
    let sac = SacConfig {
        batch_size: 64,
        samples_per_insert: 64.0,
        hidden: vec![64, 64],
        ..SacConfig::for_environment("Pendulum-v1")
    };
    let found = swung_up(sac, 5_000);
    assert!(found >= -300.0, "{found}");
}

#[test]
fn d4pg_swings_the_pendulum_up() {
    let (batch_size, samples_per_insert) = (64, 64.0);
    let d4pg = D4pgConfig { batch_size, samples_per_insert, ..D4pgConfig::for_environment("Pendulum-v1") };
    let found = swung_up(d4pg, 4_000);
    assert!(found >= -300.0, "{found}");
}

#[test]
fn r2d2_learns_a_memory_task() {
    let agent: Arc<dyn Agent> = Arc::new(R2d2Config::for_environment("memory_len/3"));
    let (trained, _) = run(&agent, &options("memory_len/3", 3_500, 1)).unwrap();
    assert!(trained.summary.mean_return_last_100 >= 0.9, "{:?}", trained.summary);
    let agent: Arc<dyn Agent> = Arc::new(DqnConfig::for_environment("memory_len/3"));
    let (forgetful, _) = run(&agent, &options("memory_len/3", 3_500, 1)).unwrap();
    assert!(forgetful.summary.mean_return_last_100 < 0.4, "{:?}", forgetful.summary);
}

#[test]
fn impala_learns_catch_and_memory_len() {
    for (environment, steps) in [("catch/0", 45_000), ("memory_len/3", 50_000)] {
        let agent: Arc<dyn Agent> = Arc::new(ImpalaConfig::for_environment(environment));
        let (trained, _) = run(&agent, &options(environment, steps, 1)).unwrap();
        assert!(trained.summary.mean_return_last_100 > 0.7, "{environment}: {:?}", trained.summary);
    }
}

#[test]
fn appo_balances_the_pole() {
    let agent: Arc<dyn Agent> = Arc::new(AppoConfig::for_environment("CartPole-v1"));
    let (trained, _) = run(&agent, &options("CartPole-v1", 150_000, 1)).unwrap();
    assert!(trained.summary.mean_return_last_100 > 300.0, "{:?}", trained.summary);
}
