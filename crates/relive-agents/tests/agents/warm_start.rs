//! Runs that begin with the learner of an earlier run.

use std::path::Path;
use std::sync::Arc;

use relive_agents::{DqnConfig, PpoConfig};
use relive_rl::run::{Checkpoints, RunOptions, Stop, Trained};
use relive_rl::{Agent, Result};

use crate::common::{all, numbers, options, run, small_dqn, small_ppo};

/// Trains with checkpoints in the folder.
fn saved(agent: &Arc<dyn Agent>, folder: &Path, of: RunOptions) -> Trained {
    let checkpoints = Some(Checkpoints { folder: folder.to_owned(), every: 1_000 });
    run(agent, &RunOptions { checkpoints, ..of }).unwrap().0
}

/// Returns options for a run that is stopped before its first step.
fn stopped(environment: &str) -> RunOptions {
    let stop = Stop::new();
    stop.stop();
    RunOptions { stop, ..options(environment, 1_000, 9) }
}

/// Begins a run with the learner of an earlier run.
fn begun(agent: &Arc<dyn Agent>, from: &Path, of: RunOptions) -> Result<Trained> {
    run(agent, &RunOptions { warm_start: Some(from.to_owned()), ..of }).map(|(trained, _)| trained)
}

#[test]
fn every_agent_begins_with_the_networks_of_the_earlier_run() {
    for (agent, environments) in all() {
        let folder = tempfile::tempdir().unwrap();
        let (name, environment) = (agent.name(), environments[0]);
        let trained = numbers(&saved(&agent, folder.path(), options(environment, 300, 1)));
        let unchanged = begun(&agent, folder.path(), stopped(environment)).unwrap();
        assert_eq!((unchanged.summary.env_steps, numbers(&unchanged)), (0, trained.clone()), "{name}");
        let fresh = run(&agent, &stopped(environment)).unwrap().0;
        assert_ne!(numbers(&fresh), trained, "{name}");
    }
}

#[test]
fn schedules_and_returns_begin_anew_in_another_environment_with_other_settings() {
    let ppo = |num_envs| -> Arc<dyn Agent> {
        Arc::new(PpoConfig { num_envs, anneal: true, normalize_rewards: true, ..small_ppo() })
    };
    let folder = tempfile::tempdir().unwrap();
    let trained = saved(&ppo(8), folder.path(), options("catch/0", 512, 1));
    // At the end of the schedule, the step size is 0.
    let continued = begun(&ppo(4), folder.path(), options("catch_noise/3", 64, 2)).unwrap();
    assert!(continued.summary.learner_steps > 0);
    assert_ne!(numbers(&continued), numbers(&trained));
}

#[test]
fn a_resumed_run_ignores_the_warm_start() {
    let agent: Arc<dyn Agent> = Arc::new(small_dqn());
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [earlier, own] = [folders[0].path(), folders[1].path()];
    saved(&agent, earlier, options("catch/0", 200, 1));
    let warm_start = Some(earlier.to_owned());
    let of = |steps| RunOptions { warm_start: warm_start.clone(), ..options("catch/0", steps, 2) };
    let first = numbers(&saved(&agent, own, of(200)));
    assert_eq!(numbers(&saved(&agent, own, of(200))), first);
    // A checkpoint that is already loaded is not read again.
    std::fs::remove_dir_all(earlier).unwrap();
    assert_ne!(numbers(&saved(&agent, own, of(400))), first);
}

#[test]
fn a_warm_start_that_does_not_fit_is_refused() {
    let (dqn, ppo): (Arc<dyn Agent>, Arc<dyn Agent>) = (Arc::new(small_dqn()), Arc::new(small_ppo()));
    let wide: Arc<dyn Agent> = Arc::new(DqnConfig { hidden: vec![17], ..small_dqn() });
    let folder = tempfile::tempdir().unwrap();
    let (place, empty) = (folder.path().join("run"), folder.path().join("empty"));
    saved(&dqn, &place, options("catch/0", 100, 1));
    std::fs::create_dir(&empty).unwrap();
    let policy = folder.path().join("policy.safetensors");
    std::fs::write(&policy, b"weights").unwrap();
    let missing = folder.path().join("missing");
    let error = |agent, from: &Path, environment| {
        begun(agent, from, options(environment, 100, 1)).map(drop).unwrap_err().to_string()
    };
    for (from, agent, environment, expected) in [
        (
            &place,
            &ppo,
            "catch/0",
            "agent: the checkpoint has dqn, this run has ppo; a warm start needs the same agent",
        ),
        (&place, &dqn, "CartPole-v1", "observation spec: the checkpoint has"),
        (&place, &wide, "catch/0", "with the same agent and networks of the same shapes (the data of"),
        (&missing, &dqn, "catch/0", "but it must be a folder with the checkpoints of a run"),
        (&empty, &dqn, "catch/0", "but it must be a folder with the checkpoints of a run"),
        (&policy, &dqn, "catch/0", "the file of a policy has no learner"),
    ] {
        let error = error(agent, from, environment);
        assert!(error.contains(expected) && error.contains(&*from.to_string_lossy()), "{error}");
    }
    assert!(!missing.exists(), "a refused warm start creates no folder");
}
