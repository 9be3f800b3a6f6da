//! Runs of agents in native environments.

use std::sync::Arc;

use relive_agents::{
    A2cConfig, A3cConfig, ApexConfig, AppoConfig, DqnConfig, DqnLoss, ImpalaConfig, MctsConfig, MctsModel,
    PpoConfig, R2d2Config, RainbowConfig, SacConfig,
};
use relive_rl::plan::MakeEnvironment;
use relive_rl::run::{Report, RunOptions, Trained, train};
use relive_rl::{Agent, Result};

/// Trains in the named environment. Returns the result and all reports of the run.
pub(crate) fn run(agent: &Arc<dyn Agent>, options: &RunOptions) -> Result<(Trained, Vec<Report>)> {
    let name = options.environment.clone();
    let make = MakeEnvironment::new(move |seed| Ok(relive_env::make(&name, seed)?));
    run_in(agent, options, &make)
}

pub(crate) fn run_in(
    agent: &Arc<dyn Agent>,
    options: &RunOptions,
    make: &MakeEnvironment,
) -> Result<(Trained, Vec<Report>)> {
    let mut reports = Vec::new();
    let trained = train(agent, options, make, &mut |report| reports.push(report.clone()))?;
    Ok((trained, reports))
}

pub(crate) fn options(environment: &str, env_steps: u64, seed: u64) -> RunOptions {
    RunOptions { environment: environment.to_owned(), env_steps, seed, ..RunOptions::default() }
}

/// Returns the bits of all numbers of the weights.
pub(crate) fn numbers(trained: &Trained) -> Vec<u32> {
    let parts = trained.weights.parts().iter();
    parts.flat_map(|(_, part)| part.to_vec::<f32>().unwrap()).map(f32::to_bits).collect()
}

/// Returns a PPO that is small enough for many runs.
pub(crate) fn small_ppo() -> PpoConfig {
    let (num_envs, num_steps) = (8, 16);
    PpoConfig { num_envs, num_steps, minibatch_size: 32, epochs: 2, hidden: vec![16], ..PpoConfig::default() }
}

pub(crate) fn small_sac() -> SacConfig {
    SacConfig { batch_size: 16, samples_per_insert: 8.0, n_step: 3, hidden: vec![16], ..SacConfig::default() }
}

pub(crate) fn small_dqn() -> DqnConfig {
    let (batch_size, min_replay_size, max_replay_size) = (16, 50, 300);
    DqnConfig { batch_size, min_replay_size, max_replay_size, hidden: vec![16], ..DqnConfig::default() }
}

pub(crate) fn small_r2d2() -> R2d2Config {
    R2d2Config {
        batch_size: 4,
        samples_per_insert: 2.0,
        burn_in_length: 2,
        trace_length: 5,
        replay_period: 3,
        min_replay_size: 10,
        max_replay_size: 200,
        hidden: vec![8],
        lstm_units: 6,
        head: vec![8],
        ..R2d2Config::default()
    }
}

pub(crate) fn small_mcts() -> MctsConfig {
    MctsConfig { num_simulations: 5, max_replay_size: 300, hidden: vec![8], ..MctsConfig::default() }
}

/// Returns every agent in a small form, with the environments in which it can act.
pub(crate) fn all() -> Vec<(Arc<dyn Agent>, &'static [&'static str])> {
    let mut all = on_policy();
    all.push((Arc::new(small_dqn()), &["CartPole-v1", "catch/0"]));
    let (sequence_length, num_envs, batch_size, hidden) = (7, 4, 8, vec![8]);
    all.push((
        Arc::new(ImpalaConfig {
            sequence_length,
            num_envs,
            batch_size,
            hidden: hidden.clone(),
            ..ImpalaConfig::default()
        }),
        &["CartPole-v1", "catch/0", "Pendulum-v1"],
    ));
    let appo = AppoConfig { sequence_length, num_envs, batch_size, hidden, ..AppoConfig::default() };
    all.push((Arc::new(appo), &["CartPole-v1", "Pendulum-v1"]));
    let noisy = DqnConfig { noisy: true, epsilon: 0.0, duelling: true, ..small_dqn() };
    all.push((Arc::new(RainbowConfig(noisy)), &["CartPole-v1"]));
    let in_shards = DqnConfig { replay_shards: 4, ..small_dqn() };
    all.push((Arc::new(ApexConfig(in_shards)), &["CartPole-v1"]));
    let implicit = DqnConfig { loss: DqnLoss::ImplicitQuantile, duelling: true, noisy: true, ..small_dqn() };
    all.push((Arc::new(implicit), &["CartPole-v1"]));
    all.push((Arc::new(small_r2d2()), &["CartPole-v1", "catch/0"]));
    all.extend(crate::continuous::all());
    all.push((Arc::new(small_mcts()), &["CartPole-v1", "catch/0"]));
    let (model, model_hidden) = (MctsModel::Learned, vec![8]);
    all.push((Arc::new(MctsConfig { model, model_hidden, ..small_mcts() }), &["CartPole-v1", "catch/0"]));
    all.push((
        Arc::new(A3cConfig(A2cConfig { hidden: vec![16], ..A2cConfig::default() })),
        &["CartPole-v1", "Pendulum-v1"],
    ));
    all
}

/// Returns the on-policy agents.
pub(crate) fn on_policy() -> Vec<(Arc<dyn Agent>, &'static [&'static str])> {
    let normalized = PpoConfig { normalize_observations: true, normalize_rewards: true, ..small_ppo() };
    vec![
        (Arc::new(normalized), &["CartPole-v1", "Pendulum-v1", "catch/0"]),
        (Arc::new(A2cConfig { hidden: vec![16], ..A2cConfig::default() }), &["CartPole-v1", "Pendulum-v1"]),
    ]
}
