//! Logs of runs that are saved and resumed: each episode is there once.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use relive_agents::DqnConfig;
use relive_rl::logging::{CsvLogger, JsonLinesLogger, Loggers, TensorBoardLogger};
use relive_rl::run::{Checkpoints, Evaluation, Hooks, RunOptions, Trained};
use relive_rl::{Agent, Result, RlError};

use crate::common::{numbers, options, run, small_dqn};

/// Runs in a folder, with its checkpoints and logs there, until there are so many steps in all, or it is to break
/// down after so many.
fn run_there(folder: &Path, steps: u64, breaks_after: Option<u64>) -> Result<Trained> {
    let (logs, mut loggers) = (folder.join("log"), Loggers::new());
    loggers.add(JsonLinesLogger::new(&logs)?);
    loggers.add(CsvLogger::new(&logs)?);
    loggers.add(TensorBoardLogger::new(&logs)?);
    let made = AtomicU64::new(0);
    let hooks = Hooks::default().on_rollout(move |_, _| {
        let made = made.fetch_add(1, Ordering::Relaxed) + 1;
        if Some(made) > breaks_after && breaks_after.is_some() { Err(RlError::Stopped) } else { Ok(()) }
    });
    let checkpoints = Checkpoints { folder: folder.join("run"), every: 200 };
    if !checkpoints.are_there()? {
        loggers.begin_anew()?;
    }
    let evaluation = Some(Evaluation { every: 150, episodes: 2 });
    let agent: Arc<dyn Agent> = Arc::new(DqnConfig { hidden: vec![8], ..small_dqn() });
    let options = RunOptions {
        checkpoints: Some(checkpoints),
        evaluation,
        loggers,
        hooks,
        ..options("catch/0", steps, 1)
    };
    run(&agent, &options).map(|(trained, _)| trained)
}

/// The lines of a log of JSON, without times.
fn lines(folder: &Path, name: &str) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(folder.join("log").join(name)).unwrap();
    let lines = text.lines().map(|line| {
        let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
        line.as_object_mut().unwrap().retain(|name, _| !matches!(&**name, "seconds" | "learner_walltime_s"));
        line
    });
    lines.collect()
}

/// How many returns of actors all files of TensorBoard have.
fn told_to_tensorboard(folder: &Path) -> usize {
    let files = std::fs::read_dir(folder.join("log")).unwrap().map(|entry| entry.unwrap().path());
    let events = files.filter(|path| path.extension().is_some_and(|extension| extension == "relive"));
    let tag = b"actor/episode_return";
    events
        .map(|path| std::fs::read(path).unwrap().windows(tag.len()).filter(|part| part == tag).count())
        .sum()
}

#[test]
fn a_run_that_broke_down_and_goes_on_has_the_logs_of_one_that_did_not() {
    let (whole, broken) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let expected = run_there(whole.path(), 1_000, None).unwrap();
    // Before there is a checkpoint, between two of them, and right after one that has files which began after the one
    // before.
    for breaks_after in [150, 350, 290, 201] {
        assert!(run_there(broken.path(), 1_000, Some(breaks_after)).is_err(), "{breaks_after}");
    }
    let trained = run_there(broken.path(), 1_000, None).unwrap();
    assert_eq!(numbers(&trained), numbers(&expected));
    for name in ["actor.jsonl", "evaluator.jsonl", "learner.jsonl"] {
        assert_eq!(lines(broken.path(), name), lines(whole.path(), name), "{name}");
    }
    let rows = |folder: &Path| std::fs::read_to_string(folder.join("log/actor.csv")).unwrap().lines().count();
    assert_eq!((rows(broken.path()), rows(whole.path())), (112, 112), "a header, and episodes of nine steps");
    assert_eq!((told_to_tensorboard(broken.path()), told_to_tensorboard(whole.path())), (111, 111));
}

#[test]
fn a_run_goes_on_from_its_end_where_no_checkpoint_was_due() {
    let folder = tempfile::tempdir().unwrap();
    run_there(folder.path(), 250, None).unwrap();
    let trained = run_there(folder.path(), 500, None).unwrap();
    assert_eq!((trained.summary.env_steps, trained.summary.episodes), (500, 55));
    let ends: Vec<_> =
        lines(folder.path(), "actor.jsonl").iter().map(|line| line["env_steps"].clone()).collect();
    assert_eq!(ends, (1..=55).map(|episode| serde_json::json!(f64::from(episode) * 9.0)).collect::<Vec<_>>());
    // The evaluation at the first end is none of a run that goes on.
    let evaluated: Vec<_> = lines(folder.path(), "evaluator.jsonl")
        .iter()
        .map(|line| line["env_steps"].as_f64().unwrap())
        .collect();
    assert_eq!(evaluated, [150.0, 150.0, 300.0, 300.0, 450.0, 450.0, 500.0, 500.0]);
}
