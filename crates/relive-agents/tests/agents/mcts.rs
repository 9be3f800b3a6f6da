//! Searches with and without environments.

use std::sync::Arc;

use relive_agents::{MctsConfig, MctsModel};
use relive_env::{Action, Buffer, Environment};
use relive_rl::plan::MakeEnvironment;
use relive_rl::run::{Evaluation, Report, RunOptions};
use relive_rl::{Agent, SavedPolicy};

use crate::common::{numbers, options, run, run_in, small_mcts};
use crate::faulty::Faulty;

#[test]
fn mcts_solves_deep_sea() {
    let agent: Arc<dyn Agent> = Arc::new(MctsConfig::for_environment("deep_sea/0"));
    let evaluation = Some(Evaluation { every: 3_000, episodes: 1 });
    let options = RunOptions { evaluation, ..options("deep_sea/0", 3_000, 1) };
    let (trained, reports) = run(&agent, &options).unwrap();
    assert!(trained.summary.mean_return_last_100 >= 0.7, "{:?}", trained.summary);
    assert!((trained.summary.samples_per_insert - 16.0).abs() < 0.1, "{:?}", trained.summary);
    let shown = reports.iter().find_map(|report| match report {
        Report::Evaluator(episode) => Some(episode.episode_return),
        _ => None,
    });
    assert!(shown.is_some_and(|shown| shown > 0.98), "{shown:?}");
}

#[test]
fn the_saved_policy_of_mcts_works_without_search() {
    let agent: Arc<dyn Agent> = Arc::new(MctsConfig::default());
    let (trained, _) = run(&agent, &options("catch/0", 5_400, 1)).unwrap();
    let mut policy = SavedPolicy::of(agent.as_ref(), &trained).unwrap();
    let mut environment = relive_env::make("catch/0", 77).unwrap();
    let mut observation = Buffer::for_nest(&environment.spec().observations, 1).unwrap();
    let mut action = Buffer::for_nest(&environment.spec().actions, 1).unwrap();
    let mut total = 0.0;
    for _ in 0..100 {
        let mut step = environment.reset(observation.view_mut()).unwrap();
        while !step.last() {
            policy.act(observation.view(), action.view_mut()).unwrap();
            let actual = policy.extra("policy").unwrap().to_vec::<f32>().unwrap();
            assert!((actual.iter().sum::<f32>() - 1.0).abs() < 1e-5);
            step = environment.step(Action::Nest(action.view()), observation.view_mut()).unwrap();
            total += step.reward;
        }
    }
    assert!(total >= 70.0, "{total}");
}

#[test]
fn a_search_in_a_learned_model_learns_to_catch() {
    let learned = MctsConfig {
        model: MctsModel::Learned,
        batch_size: 64,
        samples_per_insert: 64.0,
        ..MctsConfig::default()
    };
    let (trained, reports) =
        run(&(Arc::new(learned) as Arc<dyn Agent>), &options("catch/0", 9_000, 1)).unwrap();
    assert!(trained.summary.mean_return_last_100 >= 0.8, "{:?}", trained.summary);
    let metrics = reports.iter().rev().find_map(|report| match report {
        Report::Learner(report) => Some(report.metrics.clone()),
        _ => None,
    });
    assert!(metrics.is_some_and(|metrics| metrics.iter().any(|(name, _)| *name == "model_loss")));
}

#[test]
fn mcts_trains_with_n_steps_noise_and_several_actors() {
    let agent = MctsConfig { n_step: 3, noise_share: 0.25, noise_alpha: 0.3, ..small_mcts() };
    let agent: Arc<dyn Agent> = Arc::new(agent);
    for actors in [0, 2] {
        let run = run(&agent, &RunOptions { actors, ..options("catch/0", 900, 1) });
        assert!(!numbers(&run.unwrap().0).is_empty());
    }
}

#[test]
fn an_environment_without_save_and_restore_is_refused_before_the_run() {
    let make = MakeEnvironment::new(|_| {
        let agent = small_mcts();
        Ok(Box::new(Faulty::new(0.0, 1.0, true).forgetful().for_agent(&agent)))
    });
    let agent: Arc<dyn Agent> = Arc::new(small_mcts());
    let error = run_in(&agent, &options("faulty", 100, 1), &make).unwrap_err().to_string();
    assert!(
        error.contains("because the agent searches in it") && error.contains("model = \"learned\""),
        "{error}"
    );
}
