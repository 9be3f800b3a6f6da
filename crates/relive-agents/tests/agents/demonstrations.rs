//! Recorded episodes: stored on disk, learned from without acting, and mixed with an agent's own experience.

use std::path::Path;
use std::sync::Arc;

use relive_agents::{Demonstrations, DqfdConfig, DqnConfig, R2d2Config, R2d3Config};
use relive_rl::recorded::{self, RecordedEpisode};
use relive_rl::run::{Checkpoints, Evaluation, Report, RunOptions};
use relive_rl::{Agent, Result};

use crate::common::{numbers, options, run, small_dqn, small_r2d2};

/// Returns episodes that repeat the first action.
fn played(environment: &str, count: usize) -> Vec<RecordedEpisode> {
    let mut made = relive_env::make(environment, 1).unwrap();
    (0..count).map(|_| RecordedEpisode::play(&mut made, |_, _, _| Ok(())).unwrap()).collect()
}

fn recorded_in(folder: &Path, environment: &str, episodes: &[RecordedEpisode]) {
    let spec = relive_env::make(environment, 1).unwrap().spec().clone();
    recorded::save(folder, &spec, episodes).unwrap();
}

fn read(folder: &Path, environment: &str) -> Result<Vec<RecordedEpisode>> {
    recorded::load(folder, relive_env::make(environment, 1).unwrap().spec())
}

#[test]
fn recorded_episodes_round_trip() {
    for environment in ["catch/0", "Pendulum-v1", "CartPole-v1"] {
        let (folder, episodes) = (tempfile::tempdir().unwrap(), played(environment, 3));
        recorded_in(folder.path(), environment, &episodes);
        let read = read(folder.path(), environment).unwrap();
        assert_eq!(read.len(), 3);
        for (read, played) in read.iter().zip(&episodes) {
            assert_eq!((&read.observations, &read.actions), (&played.observations, &played.actions));
            assert!((read.episode_return() - played.episode_return()).abs() < 1e-3);
            let ends = |episode: &RecordedEpisode| {
                episode
                    .answers
                    .iter()
                    .map(|answer| (answer.last(), answer.discount.to_bits()))
                    .collect::<Vec<_>>()
            };
            assert_eq!(ends(read), ends(played), "{environment}");
        }
    }
}

#[test]
fn missing_and_mismatched_recordings_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let error_of = |environment| read(folder.path(), environment).unwrap_err().to_string();
    assert!(error_of("catch/0").contains("no checkpoint of recorded episodes"), "{}", error_of("catch/0"));
    recorded_in(folder.path(), "catch/0", &played("catch/0", 1));
    let error = error_of("Pendulum-v1");
    assert!(error.contains("episode 0") && error.contains(&folder.path().display().to_string()), "{error}");
    let agent: Arc<dyn Agent> = Arc::new(small_dqn());
    let learns = |options: RunOptions| run(&agent, &options).unwrap_err().to_string();
    let data = Some(folder.path().to_owned());
    let error = learns(RunOptions { data: data.clone(), ..options("catch/0", 100, 1) });
    assert!(error.contains("for a run that learns from data"), "{error}");
    let elsewhere = RunOptions { data: data.clone(), learner_steps: Some(5), ..options("CartPole-v1", 0, 1) };
    assert!(learns(elsewhere).contains("episode 0"));
    for (agent, expected) in [("ppo", "none for an agent without a replay table"), ("mcts", "none for mcts")]
    {
        let agent = relive_agents::from_json(agent, "{}").unwrap();
        let options = RunOptions { data: data.clone(), learner_steps: Some(5), ..options("catch/0", 0, 1) };
        let error = run(&agent, &options).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// Returns a run without environment steps.
fn offline(
    agent: &Arc<dyn Agent>,
    environment: &str,
    data: &Path,
    steps: u64,
    saved: Option<&Path>,
) -> (Vec<u32>, f64) {
    let options = RunOptions {
        data: Some(data.to_owned()),
        learner_steps: Some(steps),
        evaluation: Some(Evaluation { every: 100, episodes: 1 }),
        checkpoints: saved.map(|folder| Checkpoints { folder: folder.to_owned(), every: 50 }),
        ..options(environment, 0, 1)
    };
    let (trained, reports) = run(agent, &options).unwrap();
    assert_eq!((trained.summary.env_steps, trained.summary.learner_steps), (0, steps));
    let shown = reports.iter().rev().find_map(|report| match report {
        Report::Evaluator(episode) => Some(episode.episode_return),
        _ => None,
    });
    (numbers(&trained), shown.unwrap())
}

#[test]
fn agents_learn_from_recorded_episodes_only() {
    let folder = tempfile::tempdir().unwrap();
    let mut environment = relive_env::make("deep_sea/0", 1).unwrap();
    let shown = RecordedEpisode::demonstrated(&mut environment).unwrap();
    assert!(shown.episode_return() > 0.98);
    let mut episodes = played("deep_sea/0", 5);
    episodes.push(shown);
    recorded_in(folder.path(), "deep_sea/0", &episodes);
    let dqn: Arc<dyn Agent> = Arc::new(DqnConfig { min_replay_size: 1, ..small_dqn() });
    let r2d2: Arc<dyn Agent> = Arc::new(R2d2Config { min_replay_size: 1, ..small_r2d2() });
    let (_, shown) = offline(&dqn, "deep_sea/0", folder.path(), 2_000, None);
    assert!(shown > 0.98, "{shown}");
    for agent in [&dqn, &r2d2] {
        let (whole, in_parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let expected = offline(agent, "deep_sea/0", folder.path(), 150, Some(whole.path()));
        offline(agent, "deep_sea/0", folder.path(), 100, Some(in_parts.path()));
        let resumed = offline(agent, "deep_sea/0", folder.path(), 150, Some(in_parts.path()));
        assert!(resumed == expected, "{} goes on where it was", agent.name());
    }
}

#[test]
fn dqfd_solves_deep_sea_with_demonstrations() {
    let mean = |agent: Arc<dyn Agent>, steps| {
        run(&agent, &options("deep_sea/0", steps, 1)).unwrap().0.summary.mean_return_last_100
    };
    let dqfd = mean(Arc::new(DqfdConfig::for_environment("deep_sea/0")), 6_000);
    assert!(dqfd > 0.6, "{dqfd}");
    let r2d3 = mean(Arc::new(R2d3Config::for_environment("deep_sea/0")), 6_000);
    assert!(r2d3 > 0.6, "{r2d3}");
    let alone = mean(Arc::new(DqnConfig::default()), 3_000);
    assert!(alone < 0.05, "{alone}");
}

#[test]
fn a_share_that_leaves_a_batch_without_demonstrations_or_without_own_items_is_refused() {
    // A batch has 16 items.
    for ratio in [0.001, 0.999] {
        let demonstrations = Demonstrations { ratio, ..Demonstrations::default() };
        let refused = DqfdConfig(DqnConfig { demonstrations, ..small_dqn() });
        let agent: Arc<dyn Agent> = Arc::new(refused);
        let error = run(&agent, &options("deep_sea/0", 100, 1)).unwrap_err().to_string();
        let expected =
            "but it must be 0, or such that a batch has both demonstrations and the agent's own items";
        assert_eq!(error, format!("demonstrations.ratio is {ratio}, {expected}"));
    }
}

#[test]
fn a_run_with_demonstrations_resumes_where_it_stopped() {
    let demonstrations = Demonstrations { ratio: 0.25, ..Demonstrations::default() };
    let agent: Arc<dyn Agent> = Arc::new(DqfdConfig(DqnConfig { demonstrations, ..small_dqn() }));
    let of = |folder: &Path, steps| {
        let checkpoints = Some(Checkpoints { folder: folder.to_owned(), every: 100 });
        numbers(&run(&agent, &RunOptions { checkpoints, ..options("deep_sea/0", steps, 7) }).unwrap().0)
    };
    let (whole, in_parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let expected = of(whole.path(), 400);
    of(in_parts.path(), 200);
    assert!(of(in_parts.path(), 400) == expected);
}

#[test]
fn an_environment_without_a_demonstrator_requires_recorded_episodes() {
    let agent: Arc<dyn Agent> = Arc::new(DqfdConfig::default());
    let error = run(&agent, &options("catch/0", 100, 1)).unwrap_err().to_string();
    assert!(error.contains("relive rl record"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    recorded_in(folder.path(), "catch/0", &played("catch/0", 2));
    let demonstrations = Demonstrations { ratio: 0.5, folder: Some(folder.path().to_owned()), episodes: 1 };
    let agent: Arc<dyn Agent> = Arc::new(DqfdConfig(DqnConfig { demonstrations, ..small_dqn() }));
    let (trained, _) = run(&agent, &options("catch/0", 200, 1)).unwrap();
    assert!(trained.summary.learner_steps > 0 && trained.graph.text.contains("replay(demonstrations)"));
}
