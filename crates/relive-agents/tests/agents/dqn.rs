//! DQN in environments that it can learn, and in environments that it rejects.

use std::sync::Arc;

use relive_agents::{DqnConfig, DqnLoss};
use relive_rl::run::{Evaluation, Report, RunOptions, Summary};
use relive_rl::{Agent, Result, RlError};

use crate::common::{options, run, small_dqn};

fn summary(name: &str, config: DqnConfig, env_steps: u64, actors: usize) -> Result<Summary> {
    let agent: Arc<dyn Agent> = Arc::new(config);
    Ok(run(&agent, &RunOptions { actors, ..options(name, env_steps, 1) })?.0.summary)
}

fn of_seeds(seeds: std::ops::RangeInclusive<u64>) -> Vec<Summary> {
    let agent: Arc<dyn Agent> = Arc::new(DqnConfig::default());
    seeds.map(|seed| run(&agent, &options("catch/0", 9_000, seed)).unwrap().0.summary).collect()
}

#[test]
fn catch_is_learned_in_one_thread() {
    let runs = of_seeds(1..=3);
    for summary in &runs {
        assert_eq!(summary.env_steps, 9_000);
        assert!((summary.samples_per_insert - 32.0).abs() < 0.5, "{summary:?}");
    }
    // The mean of several runs, since a trained policy may be temporarily worse.
    let mean = runs.iter().map(|summary| summary.mean_return_last_100).sum::<f64>() / 3.0;
    assert!(mean >= 0.8, "{runs:?}");
}

#[test]
fn actors_and_a_separate_learner_learn_catch() {
    let summary = summary("catch/0", DqnConfig::default(), 9_000, 2).unwrap();
    assert!(summary.mean_return_last_100 >= 0.6, "{summary:?}");
    assert!((summary.samples_per_insert - 32.0).abs() < 3.2, "{summary:?}");
}

#[test]
fn every_loss_learns() {
    use DqnLoss::{Categorical, Munchausen, QLearning, Quantile, RegularizedQ};
    for loss in [QLearning, RegularizedQ, Munchausen, Categorical, Quantile] {
        let value_range = [-1.5, 1.5];
        let config = DqnConfig { loss, atoms: 21, value_range, duelling: true, ..DqnConfig::default() };
        let summary = summary("catch/0", config, 9_000, 0).unwrap();
        assert!(summary.mean_return_last_100 >= 0.7, "{loss:?}: {summary:?}");
    }
}

#[test]
fn one_thread_learns_as_often_as_many_samples_per_insert_require() {
    let config = DqnConfig {
        batch_size: 1,
        samples_per_insert: 400.0,
        min_replay_size: 10,
        hidden: vec![4],
        ..DqnConfig::default()
    };
    let summary = summary("catch/0", config, 30, 0).unwrap();
    // Each episode has 9 transitions, and 4 over fewer steps at its end.
    assert!(summary.env_steps == 30 && summary.learner_steps > 8_000, "{summary:?}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let of = |seed| {
        let agent: Arc<dyn Agent> = Arc::new(small_dqn());
        let (_, reports) = run(&agent, &options("catch/0", 900, seed)).unwrap();
        let returns = reports.iter().filter_map(|report| match report {
            Report::Actor(episode) => Some(episode.episode_return.to_bits()),
            _ => None,
        });
        returns.collect::<Vec<_>>()
    };
    assert_eq!(of(7), of(7));
    assert_ne!(of(7), of(8));
}

#[test]
fn dqn_accepts_nests_images_and_dueling_heads() {
    for name in ["CartPole-v1", "deep_sea/0", "bandit/3", "umbrella_length/1"] {
        let config = DqnConfig { duelling: true, n_step: 1, ..small_dqn() };
        let summary = summary(name, config, 120, 0).unwrap();
        assert!(summary.learner_steps > 0, "{name}: {summary:?}");
    }
}

#[test]
fn invalid_dqn_settings_are_reported() {
    let refused =
        |name: &str, config: DqnConfig, actors| summary(name, config, 100, actors).unwrap_err().to_string();
    assert!(refused("pong", DqnConfig::default(), 0).contains("pong"));
    assert!(refused("Pendulum-v1", DqnConfig::default(), 1).contains("one discrete action"));
    let without_batches = DqnConfig { batch_size: 0, ..DqnConfig::default() };
    assert_eq!(refused("catch/0", without_batches, 0), "batch_size is 0, but it must be from 1 to 1048576");
    let expected = "actors is 4294967296, but it must be at most 65536";
    assert_eq!(refused("catch/0", DqnConfig::default(), 1 << 32), expected);
    let far = DqnConfig { n_step: 1 << 40, ..DqnConfig::default() };
    assert_eq!(refused("catch/0", far, 0), "n_step is 1099511627776, but it must be from 1 to 65536");
    let huge = DqnConfig { hidden: vec![1 << 40], ..DqnConfig::default() };
    assert!(refused("catch/0", huge, 0).contains("the number of parameters"));
}

#[test]
fn evaluations_have_episodes() {
    let agent: Arc<dyn Agent> = Arc::new(small_dqn());
    let evaluation = Some(Evaluation { every: 50, episodes: 0 });
    let error = run(&agent, &RunOptions { evaluation, ..options("catch/0", 100, 1) }).map(drop).unwrap_err();
    assert_eq!(error.to_string(), "evaluation.episodes is 0, but it must be at least 1");
}

#[test]
fn divergence_is_reported() {
    for actors in [0, 2] {
        let wild = DqnConfig { learning_rate: 1e36, ..small_dqn() };
        let error = summary("catch/0", wild, 2_000, actors).unwrap_err();
        assert!(matches!(error.cause(), RlError::Diverged { .. }), "{error}");
        assert!(error.to_string().contains("learning_rate"), "{error}");
    }
}

#[test]
fn tables_are_sampled_as_one() {
    for (replay_shards, actors, samples_per_insert) in [(2, 0, 32.0), (16, 0, 0.5), (4, 0, 8.0), (4, 3, 8.0)]
    {
        let config = DqnConfig { replay_shards, samples_per_insert, ..small_dqn() };
        let summary = summary("catch/0", config, 3_000, actors).unwrap();
        let share = summary.samples_per_insert / samples_per_insert;
        assert!((share - 1.0).abs() < 0.1, "{replay_shards} {actors}: {summary:?}");
    }
}

#[test]
fn invalid_replay_shards_are_refused() {
    let refused =
        |config: DqnConfig, actors| summary("catch/0", config, 300, actors).unwrap_err().to_string();
    let of = |replay_shards| DqnConfig { replay_shards, ..small_dqn() };
    assert_eq!(refused(of(0), 0), "replay_shards is 0, but it must be from 1 to 64");
    let uneven = "replay_shards is 3, but it must be a divisor of batch_size, or of batch_size minus the demonstrations";
    assert_eq!(refused(of(3), 0), uneven);
    let narrow = DqnConfig { min_replay_size: 50, max_replay_size: 50, ..of(4) };
    assert!(refused(narrow, 0).contains("few enough that each holds its part of min_replay_size"));
    assert!(refused(of(8), 40).contains("fewer for this number of actors"));
}
