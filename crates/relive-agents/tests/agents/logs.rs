//! Logs of runs that are saved and resumed contain each episode once.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use relive_agents::DqnConfig;
use relive_rl::logging::{CsvLogger, JsonLinesLogger, Logger, Loggers, Report, TensorBoardLogger};
use relive_rl::run::{Checkpoints, Evaluation, Hooks, RunOptions, Trained};
use relive_rl::{Agent, Result, RlError};

use crate::common::{numbers, options, run, small_dqn};

/// Runs with checkpoints and logs in a folder until the total number of steps is reached, or fails after `breaks_after`
/// steps.
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
    if !checkpoints.any_exist()? {
        loggers.remove_files()?;
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

/// Returns the lines of a JSON log, without times.
fn lines(folder: &Path, name: &str) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(folder.join("log").join(name)).unwrap();
    let lines = text.lines().map(|line| {
        let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
        let is_time =
            |name: &str| matches!(name, "seconds" | "learner_walltime_s" | "duration_s" | "steps_per_second");
        line.as_object_mut().unwrap().retain(|name, _| !is_time(name));
        line
    });
    lines.collect()
}

/// Returns the number of actor returns in all TensorBoard files.
fn num_tensorboard_events(folder: &Path) -> usize {
    let files = std::fs::read_dir(folder.join("log")).unwrap().map(|entry| entry.unwrap().path());
    let events = files.filter(|path| path.extension().is_some_and(|extension| extension == "relive"));
    let tag = b"actor/episode_return";
    events
        .map(|path| std::fs::read(path).unwrap().windows(tag.len()).filter(|part| part == tag).count())
        .sum()
}

#[test]
fn a_crashed_and_resumed_run_has_the_logs_of_an_uninterrupted_one() {
    let (whole, broken) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let expected = run_there(whole.path(), 1_000, None).unwrap();
    // Before the first checkpoint, between two checkpoints, and directly after a checkpoint with log files that did not
    // exist at the previous one.
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
    assert_eq!((num_tensorboard_events(broken.path()), num_tensorboard_events(whole.path())), (111, 111));
}

#[test]
fn a_run_resumes_from_its_end_without_a_due_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    run_there(folder.path(), 250, None).unwrap();
    let trained = run_there(folder.path(), 500, None).unwrap();
    assert_eq!((trained.summary.env_steps, trained.summary.episodes), (500, 55));
    let ends: Vec<_> =
        lines(folder.path(), "actor.jsonl").iter().map(|line| line["env_steps"].clone()).collect();
    assert_eq!(ends, (1..=55).map(|episode| serde_json::json!(f64::from(episode) * 9.0)).collect::<Vec<_>>());
    // The evaluation at the end of the first run is missing, since an uninterrupted run would not have made it.
    let evaluated: Vec<_> = lines(folder.path(), "evaluator.jsonl")
        .iter()
        .map(|line| line["env_steps"].as_f64().unwrap())
        .collect();
    assert_eq!(evaluated, [150.0, 150.0, 300.0, 300.0, 450.0, 450.0, 500.0, 500.0]);
}

/// A logger whose disk is full after a number of episodes.
struct FullAfter(usize);

impl Logger for FullAfter {
    fn write(&mut self, report: &Report) -> Result<()> {
        // How many reports of the learner there are depends on the machine's speed.
        if let Report::Actor(_) = report {
            self.0 = self.0.checked_sub(1).ok_or_else(full)?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        if self.0 == 0 { Err(full()) } else { Ok(()) }
    }

    fn kind(&self) -> Option<&'static str> {
        Some("full")
    }
}

fn full() -> RlError {
    RlError::setting("log", "a full disk", "space")
}

#[test]
fn a_run_whose_log_fails_ends_with_its_result() {
    let folder = tempfile::tempdir().unwrap();
    let agent: Arc<dyn Agent> = Arc::new(DqnConfig { hidden: vec![8], ..small_dqn() });
    let every = |every: u64| Some(Checkpoints { folder: folder.path().join(every.to_string()), every });
    for checkpoints in [None, every(10_000), every(20)] {
        let mut loggers = Loggers::new();
        loggers.add(FullAfter(20));
        let options = RunOptions { checkpoints, loggers, ..options("catch/0", 5_000, 1) };
        let (trained, _) = run(&agent, &options).unwrap();
        assert_eq!(trained.unsaved.unwrap().to_string(), full().to_string());
        let reached = trained.summary.env_steps;
        assert!((100..5_000).contains(&reached), "{reached}");
    }
}
