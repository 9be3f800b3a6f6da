//! Agents that never act, or do not need to: they learn from recorded episodes.

use std::path::Path;
use std::sync::Arc;

use relive_agents::{
    BcConfig, BcqConfig, CqlConfig, CrrConfig, CrrWeight, D4pgConfig, IqlConfig, Td3BcConfig,
};
use relive_env::{Action, ActionNoise, Buffer};
use relive_rl::plan::MakeEnvironment;
use relive_rl::recorded::{self, RecordedEpisode};
use relive_rl::run::{Checkpoints, Evaluation, Report, RunOptions, Stop};
use relive_rl::{Agent, RlError};

use crate::common::{numbers, options, run, run_in};
use crate::faulty::Faulty;

/// Returns a torque against the pendulum's fall: not a good controller, but one to imitate.
fn torque(seen: &[f32]) -> f32 {
    (0.5 * seen[2] - seen[1]).clamp(-2.0, 2.0)
}

/// Writes episodes of this controller to a folder.
pub(crate) fn pendulum(folder: &Path) {
    let mut environment = relive_env::make("Pendulum-v1", 1).unwrap();
    let mut play = || {
        let by_formula = |_: &dyn relive_env::Environment,
                          seen: relive_env::View<'_>,
                          mut action: relive_env::ViewMut<'_>| {
            action.leaf_mut::<f32>(0)?[0] = torque(seen.leaf::<f32>(0)?);
            Ok(())
        };
        RecordedEpisode::play(&mut environment, by_formula).unwrap()
    };
    let episodes: Vec<_> = (0..4).map(|_| play()).collect();
    recorded::save(folder, relive_env::make("Pendulum-v1", 1).unwrap().spec(), &episodes).unwrap();
}

/// Returns each of these agents in a small form, and one that can also act.
fn all() -> Vec<Arc<dyn Agent>> {
    let hidden = || vec![16];
    let cql = CqlConfig {
        batch_size: 8,
        samples: 2,
        imitation_steps: 20,
        temperature: 0.1,
        ..CqlConfig::default()
    };
    let iql = IqlConfig { batch_size: 16, normalize_observations: true, ..IqlConfig::default() };
    vec![
        Arc::new(BcConfig { batch_size: 16, hidden: hidden(), ..BcConfig::default() }),
        Arc::new(CqlConfig { hidden: hidden(), ..cql }),
        Arc::new(CrrConfig {
            batch_size: 16,
            weight: CrrWeight::Binary,
            hidden: hidden(),
            ..CrrConfig::default()
        }),
        Arc::new(IqlConfig { hidden: hidden(), ..iql }),
        Arc::new(Td3BcConfig {
            batch_size: 16,
            hidden: hidden(),
            critic_hidden: hidden(),
            ..Td3BcConfig::default()
        }),
        Arc::new(D4pgConfig {
            batch_size: 16,
            min_replay_size: 50,
            hidden: hidden(),
            critic_hidden: hidden(),
            ..D4pgConfig::default()
        }),
    ]
}

fn offline(environment: &str, learner_steps: u64, data: Option<&Path>) -> RunOptions {
    let (learner_steps, data) = (Some(learner_steps), data.map(Path::to_owned));
    RunOptions { learner_steps, data, ..options(environment, 0, 3) }
}

/// Returns the mean return of a policy that behavioral cloning learned from a folder.
fn imitated(environment: &str, learner_steps: u64, data: &Path) -> f64 {
    let bc = BcConfig { batch_size: 64, hidden: vec![32], ..BcConfig::default() };
    let agent: Arc<dyn Agent> = Arc::new(bc);
    let evaluation = Some(Evaluation { every: learner_steps, episodes: 10 });
    let options = RunOptions { evaluation, ..offline(environment, learner_steps, Some(data)) };
    let reports = run(&agent, &options).unwrap().1;
    let shown = reports.iter().filter_map(|report| match report {
        Report::Evaluator(episode) => Some(episode.episode_return),
        _ => None,
    });
    shown.sum::<f64>() / 10.0
}

#[test]
fn behavior_cloning_imitates_the_recorded_actions() {
    let (choices, torques) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut environment = relive_env::make("deep_sea/0", 1).unwrap();
    let shown = [RecordedEpisode::demonstrated(&mut environment).unwrap()];
    recorded::save(choices.path(), environment.spec(), &shown).unwrap();
    let found = imitated("deep_sea/0", 300, choices.path());
    assert!(found >= 0.95, "{found}");
    pendulum(torques.path());
    let (found, expected) = (imitated("Pendulum-v1", 2_000, torques.path()), formula_return());
    assert!((found - expected).abs() < 150.0, "{found} {expected}");
}

/// Returns the mean return of the controller.
fn formula_return() -> f64 {
    let (mut total, mut environment) = (0.0, relive_env::make("Pendulum-v1", 5).unwrap());
    let mut observation = Buffer::for_nest(&environment.spec().observations, 1).unwrap();
    environment.reset(observation.view_mut()).unwrap();
    for _ in 0..50 * 201 {
        let torque = [torque(observation.leaf::<f32>(0).unwrap())];
        total += environment.step(Action::Continuous(&torque), observation.view_mut()).unwrap().reward;
    }
    total / 50.0
}

/// Writes episodes to a folder in which each action is random with probability ½, and otherwise right.
pub(crate) fn noisy_catches(folder: &Path) {
    let mut environment = relive_env::make("catch/0", 1).unwrap();
    let mut noise = ActionNoise::new(&environment.spec().actions, 0.5, 1).unwrap();
    let mut play = || {
        let follow = |_: &dyn relive_env::Environment,
                      seen: relive_env::View<'_>,
                      mut action: relive_env::ViewMut<'_>| {
            let board = seen.leaf::<f32>(0)?;
            let column = |rows: std::ops::Range<usize>| {
                board[rows].iter().position(|cell| *cell > 0.0).unwrap_or(0) % 5
            };
            let (ball, paddle) = (column(0..45), column(45..50));
            action.leaf_mut::<i32>(0)?[0] = if ball < paddle { 0 } else { 1 + i32::from(ball > paddle) };
            Ok(noise.apply(action)?)
        };
        RecordedEpisode::play(&mut environment, follow).unwrap()
    };
    let episodes: Vec<_> = (0..100).map(|_| play()).collect();
    recorded::save(folder, relive_env::make("catch/0", 1).unwrap().spec(), &episodes).unwrap();
}

#[test]
fn bcq_learns_from_noisy_play_and_resumes_identically() {
    let data = tempfile::tempdir().unwrap();
    noisy_catches(data.path());
    let bcq = BcqConfig {
        batch_size: 64,
        hidden: vec![64],
        learning_rate: 1e-3,
        tau: 0.02,
        ..BcqConfig::default()
    };
    let agent: Arc<dyn Agent> = Arc::new(bcq);
    let of = |folder: &Path, steps| {
        let checkpoints = Some(Checkpoints { folder: folder.to_owned(), every: 500 });
        let evaluation = Some(Evaluation { every: 1_000, episodes: 20 });
        let options = offline("catch/0", steps, Some(data.path()));
        run(&agent, &RunOptions { checkpoints, evaluation, ..options }).unwrap()
    };
    let (whole, in_parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (trained, reports) = of(whole.path(), 1_000);
    let shown = reports.iter().filter_map(|report| match report {
        Report::Evaluator(episode) => Some(episode.episode_return),
        _ => None,
    });
    let mean = shown.sum::<f64>() / 20.0;
    assert!(mean >= 0.8, "{mean}");
    of(in_parts.path(), 500);
    assert!(numbers(&of(in_parts.path(), 1_000).0) == numbers(&trained));
}

#[test]
fn a_run_resumes_with_the_same_data_from_any_place_and_refuses_other_data() {
    let folder = tempfile::tempdir().unwrap();
    let [first, moved, other, runs] =
        ["first", "moved", "other", "runs"].map(|name| folder.path().join(name));
    pendulum(&first);
    let agent: Arc<dyn Agent> =
        Arc::new(IqlConfig { batch_size: 16, hidden: vec![8], ..IqlConfig::default() });
    let learn = |data: &Path, steps, name: &str| {
        let checkpoints = Some(Checkpoints { folder: runs.join(name), every: 20 });
        run(&agent, &RunOptions { checkpoints, ..offline("Pendulum-v1", steps, Some(data)) })
    };
    let whole = numbers(&learn(&first, 60, "whole").unwrap().0);
    learn(&first, 40, "parts").unwrap();
    std::fs::rename(&first, &moved).unwrap();
    assert!(numbers(&learn(&moved, 60, "parts").unwrap().0) == whole);
    let mut episodes = recorded::load(&moved, relive_env::make("Pendulum-v1", 1).unwrap().spec()).unwrap();
    let save = |episodes: &[RecordedEpisode]| {
        recorded::save(&other, relive_env::make("Pendulum-v1", 1).unwrap().spec(), episodes).unwrap();
        learn(&other, 90, "parts").map(drop)
    };
    episodes[1].answers[7].reward -= 1.0;
    let error = save(&episodes).unwrap_err().to_string();
    assert!(error.contains("rewards of the data: the checkpoint has numbers with the checksum "), "{error}");
    assert!(!error.contains("actions of the data"), "{error}");
    episodes.pop();
    let error = save(&episodes).unwrap_err().to_string();
    let lengths = "data: the checkpoint has 800 steps in 4 episodes, this run has 600 steps in 3 episodes";
    assert!(error.contains(lengths), "{error}");
    episodes
        .push(recorded::load(&moved, relive_env::make("Pendulum-v1", 1).unwrap().spec()).unwrap().remove(3));
    episodes[1].answers[7].reward += 1.0;
    save(&episodes).unwrap();
}

#[test]
fn a_run_that_ends_before_its_data_is_in_the_table_resumes_with_all_data() {
    let folder = tempfile::tempdir().unwrap();
    let [data, whole, parts] = ["data", "whole", "parts"].map(|name| folder.path().join(name));
    pendulum(&data);
    let agent = |max_replay_size| -> Arc<dyn Agent> {
        Arc::new(D4pgConfig {
            batch_size: 16,
            min_replay_size: 10,
            max_replay_size,
            hidden: vec![8],
            critic_hidden: vec![8],
            ..D4pgConfig::default()
        })
    };
    let learn = |agent: &Arc<dyn Agent>, folder: &Path, stop: &Stop| {
        let checkpoints = Some(Checkpoints { folder: folder.to_owned(), every: 20 });
        let options = offline("Pendulum-v1", 30, Some(&data));
        run(agent, &RunOptions { checkpoints, stop: stop.clone(), ..options }).unwrap().0
    };
    let (small, stopped) = (agent(20), Stop::new());
    stopped.stop();
    assert_eq!(learn(&small, &parts, &stopped).summary.learner_steps, 0);
    let resumed = learn(&small, &parts, &Stop::new());
    // The table keeps all 800 transitions, although it would be smaller in a run that acts.
    assert!(numbers(&resumed) == numbers(&learn(&agent(100_000), &whole, &Stop::new())));
}

#[test]
fn bcq_refuses_unsupported_environments() {
    let agent: Arc<dyn Agent> = Arc::new(BcqConfig::default());
    let error = run(&agent, &offline("Pendulum-v1", 10, None)).map(drop).unwrap_err().to_string();
    assert!(error.contains("one discrete action"), "{error}");
    let error = run(&agent, &options("catch/0", 100, 1)).map(drop).unwrap_err().to_string();
    assert!(error.contains("does not act"), "{error}");
}

#[test]
fn unsupported_environments_are_refused_with_the_supported_actions() {
    for agent in all().iter().filter(|agent| agent.name() != "bc") {
        let make = MakeEnvironment::new(|_| {
            Ok(Box::new(Faulty::new(0.0, 1.0, false).for_agent(&crate::common::small_dqn())))
        });
        let error = run_in(agent, &offline("odd", 10, None), &make).map(drop).unwrap_err();
        assert!(matches!(error, RlError::Unsuited { .. }), "{error}");
        assert!(error.to_string().contains("one array of float32 between bounds"), "{error}");
    }
}
