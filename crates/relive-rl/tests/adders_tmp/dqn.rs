//! DQN in environments that it can learn.

use relive_rl::Result;
use relive_rl::dqn::{DqnConfig, DqnLoss};
use relive_rl::experiment::{Evaluation, Report, RunOptions, Summary, train};

fn run(name: &str, config: &DqnConfig, options: &RunOptions) -> Result<(Summary, Vec<f64>)> {
    let mut returns = Vec::new();
    let mut note = |report: &Report| {
        if let Report::Actor(episode) = report {
            returns.push(episode.episode_return);
        }
    };
    let trained = train(config, options, &|seed| Ok(relive_env::make(name, seed)?), &mut note)?;
    Ok((trained.summary, returns))
}

#[test]
fn catch_is_learned_in_one_thread() {
    let options = RunOptions { env_steps: 9_000, seed: 1, ..RunOptions::default() };
    let (summary, _) = run("catch/0", &DqnConfig::default(), &options).unwrap();
    assert_eq!((summary.env_steps, summary.episodes), (9_000, 1_000));
    assert!(summary.mean_return_last_100 >= 0.8, "{summary:?}");
    assert!((summary.samples_per_insert - 32.0).abs() < 0.5, "{summary:?}");
}

#[test]
fn catch_is_learned_by_actors_beside_a_learner() {
    let options = RunOptions { env_steps: 9_000, seed: 1, actors: 2, ..RunOptions::default() };
    let (summary, returns) = run("catch/0", &DqnConfig::default(), &options).unwrap();
    assert_eq!(u64::try_from(returns.len()), Ok(summary.episodes));
    assert!(summary.mean_return_last_100 >= 0.6, "{summary:?}");
    assert!((summary.samples_per_insert - 32.0).abs() < 3.2, "{summary:?}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let config = DqnConfig { batch_size: 16, min_replay_size: 50, ..DqnConfig::default() };
    let of = |seed| {
        run("catch/0", &config, &RunOptions { env_steps: 900, seed, ..RunOptions::default() }).unwrap().1
    };
    assert_eq!(of(7), of(7));
    assert_ne!(of(7), of(8));
}

#[test]
fn every_loss_learns() {
    for loss in [DqnLoss::Munchausen, DqnLoss::Categorical, DqnLoss::Quantile] {
        let value_range = [-1.5, 1.5];
        let config = DqnConfig { loss, atoms: 21, value_range, duelling: true, ..DqnConfig::default() };
        let options = RunOptions { env_steps: 9_000, seed: 1, ..RunOptions::default() };
        let (summary, _) = run("catch/0", &config, &options).unwrap();
        assert!(summary.mean_return_last_100 >= 0.7, "{loss:?}: {summary:?}");
    }
}

#[test]
fn what_was_learned_is_shown_now_and_then_and_at_the_end() {
    let evaluation = Some(Evaluation { every: 90, episodes: 2 });
    let config = DqnConfig { batch_size: 16, min_replay_size: 50, ..DqnConfig::default() };
    for (actors, at) in [(0, Some(vec![90, 90, 180, 180, 207, 207])), (2, None)] {
        let options = RunOptions { env_steps: 200, seed: 1, actors, evaluation, ..RunOptions::default() };
        let (mut shown, mut learner_reports) = (Vec::new(), 0);
        let make = |seed| Ok(relive_env::make("catch/0", seed)?);
        train(&config, &options, &make, &mut |report| match report {
            Report::Evaluator(episode) => shown.push(episode.env_steps),
            Report::Learner(learner) => {
                learner_reports += 1;
                assert_eq!(learner.metrics[0].0, "loss");
            }
            Report::Actor(_) => {}
        })
        .unwrap();
        assert!(shown.len() >= 2 && shown.last() >= Some(&200), "{shown:?}");
        assert!(at.is_none_or(|at| at == shown), "{shown:?}");
        assert!(learner_reports >= 1, "{actors} actors");
    }
}

#[test]
fn nests_images_and_duelling_heads_are_taken() {
    let config =
        DqnConfig { batch_size: 8, min_replay_size: 20, duelling: true, n_step: 1, ..DqnConfig::default() };
    for name in ["CartPole-v1", "deep_sea/0", "bandit/3", "umbrella_length/1"] {
        let (summary, _) =
            run(name, &config, &RunOptions { env_steps: 60, seed: 2, ..RunOptions::default() }).unwrap();
        assert!(summary.learner_steps > 0, "{name}: {summary:?}");
    }
}

#[test]
fn what_cannot_be_is_told() {
    let refused = |name: &str, config: &DqnConfig, actors| {
        let options = RunOptions { env_steps: 100, seed: 1, actors, ..RunOptions::default() };
        train(config, &options, &|seed| Ok(relive_env::make(name, seed)?), &mut |_| {})
            .unwrap_err()
            .to_string()
    };
    let defaults = DqnConfig::default();
    assert!(refused("pong", &defaults, 0).contains("pong"));
    assert!(refused("Pendulum-v1", &defaults, 1).contains("one discrete action"));
    let without_batches = DqnConfig { batch_size: 0, ..defaults };
    assert_eq!(refused("catch/0", &without_batches, 0), "batch_size is 0, but it must be at least 1");
}
