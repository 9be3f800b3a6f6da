//! Evaluations in environments of their own, and hooks on evaluations.

use std::ops::ControlFlow;
use std::sync::Arc;

use parking_lot::Mutex;
use relive_agents::DqnConfig;
use relive_rl::plan::MakeEnvironment;
use relive_rl::run::{Evaluation, Hooks, Report, RunOptions};
use relive_rl::{Agent, SavedPolicy};

use crate::common::{options, run_in, small_dqn};

fn made(name: &'static str) -> MakeEnvironment {
    MakeEnvironment::new(move |seed| Ok(relive_env::make(name, seed)?))
}

fn agent() -> Arc<dyn Agent> {
    Arc::new(DqnConfig { hidden: vec![8], ..small_dqn() })
}

fn evaluating(env_steps: u64) -> RunOptions {
    RunOptions {
        evaluation: Some(Evaluation { every: 100, episodes: 3 }),
        ..options("catch/0", env_steps, 1)
    }
}

#[test]
fn evaluations_may_have_other_environments_with_the_same_specs() {
    // The noise of these rewards is the only difference.
    let make = made("catch/0").evaluating_in(made("catch_noise/19"));
    let (_, reports) = run_in(&agent(), &evaluating(100), &make).unwrap();
    let returns: Vec<f64> = reports
        .iter()
        .filter_map(|report| match report {
            Report::Evaluator(report) => Some(report.episode_return),
            _ => None,
        })
        .collect();
    assert!(returns.len() == 3 && returns.iter().all(|value| value.fract() != 0.0), "{returns:?}");
    let others = made("catch/0").evaluating_in(made("cartpole/0"));
    let error = run_in(&agent(), &evaluating(100), &others).map(drop).unwrap_err().to_string();
    assert!(error.starts_with("evaluation_env is an environment with the observations "), "{error}");
}

#[test]
fn a_hook_on_evaluations_gets_the_policy_and_may_end_the_run() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (of_run, noted) = (agent(), Arc::clone(&seen));
    let evaluated = Arc::clone(&of_run);
    let hooks = Hooks::default().on_evaluation(move |ended| {
        let policy = SavedPolicy::with_weights(evaluated.as_ref(), ended.spec, ended.weights)?;
        noted.lock().push((ended.env_steps, ended.episodes.len(), policy.to_bytes()?));
        Ok(if ended.env_steps < 200 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    });
    let (trained, _) =
        run_in(&of_run, &RunOptions { hooks, ..evaluating(10_000) }, &made("catch/0")).unwrap();
    let saved = SavedPolicy::of(of_run.as_ref(), &trained).unwrap().to_bytes().unwrap();
    let seen = seen.lock();
    let counts: Vec<_> = seen.iter().map(|(steps, episodes, _)| (*steps, *episodes)).collect();
    assert_eq!((trained.summary.env_steps, counts), (200, vec![(100, 3), (200, 3)]));
    assert!(seen[1].2 == saved && seen[0].2 != saved);
}
