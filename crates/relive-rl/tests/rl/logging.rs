//! The files that loggers write to their folder.

use relive_rl::logging::{CsvLogger, JsonLinesLogger, Logger, Loggers, TensorBoardLogger, TerminalLogger};
use relive_rl::run::{EpisodeReport, LearnerReport, Report};
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn actor(env_steps: u64) -> Report {
    Report::Actor(EpisodeReport {
        actor: 0,
        episode: env_steps / 9,
        episode_length: 9,
        episode_return: -0.5,
        env_steps,
        learner_steps: 1,
        seconds: 0.25,
        duration_s: 0.125,
    })
}

fn learner() -> Report {
    let metrics = vec![("loss", 0.125)];
    Report::Learner(LearnerReport { learner_steps: 2, env_steps: 18, walltime_s: 0.1, seconds: 0.5, metrics })
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn reports_are_in_all_files_and_appended_when_a_run_is_resumed() {
    let folder = std::env::temp_dir().join(format!("relive-logs-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    for steps in [9, 18] {
        let mut loggers = Loggers::new();
        loggers.add(CsvLogger::new(&folder).unwrap());
        loggers.add(JsonLinesLogger::new(&folder).unwrap());
        loggers.add(TensorBoardLogger::new(&folder).unwrap());
        loggers.write(&actor(steps)).unwrap();
        loggers.write(&learner()).unwrap();
        loggers.flush().unwrap();
    }
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    assert_eq!(
        text("actor.csv"),
        "actor,episode,episode_length,episode_return,env_steps,learner_steps,seconds,duration_s,steps_per_second\n\
         0,1,9,-0.5,9,1,0.25,0.125,72\n0,2,9,-0.5,18,1,0.25,0.125,72\n"
    );
    let last: serde_json::Value =
        serde_json::from_str(text("learner.jsonl").lines().last().unwrap()).unwrap();
    assert_eq!((&last["loss"], &last["learner_steps"]), (&0.125.into(), &2.0.into()));
    let names = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
    let events = names.filter(|name| name.to_str().unwrap().starts_with("events.out.tfevents.")).count();
    assert_eq!(events, 2);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn each_value_is_in_its_column_even_if_reports_differ() {
    let folder = tempfile::tempdir().unwrap();
    let report = |metrics| match learner() {
        Report::Learner(report) => Report::Learner(LearnerReport { metrics, ..report }),
        other => other,
    };
    for metrics in [vec![("loss", 1.0), ("entropy", 2.0)], vec![("lag", 3.0), ("entropy", 4.0)]] {
        // The second logger reads the header of the first.
        let mut logger = CsvLogger::new(folder.path()).unwrap();
        logger.write(&report(metrics.clone())).unwrap();
        logger.write(&report(metrics)).unwrap();
        logger.flush().unwrap();
    }
    let text = std::fs::read_to_string(folder.path().join("learner.csv")).unwrap();
    let rows: Vec<&str> = text.lines().collect();
    assert_eq!(rows[0], "learner_steps,env_steps,learner_walltime_s,seconds,loss,entropy");
    assert_eq!(rows[1..], ["2,18,0.1,0.5,1,2", "2,18,0.1,0.5,1,2", "2,18,0.1,0.5,,4", "2,18,0.1,0.5,,4"]);
}

#[test]
fn a_csv_file_that_was_truncated_gets_its_columns_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("learner.csv");
    // A row that was written after the file had been truncated, and a row that the disk had no room for.
    std::fs::write(&path, "2,18,0.1,0.5,1\n3,27,0.").unwrap();
    let mut logger = CsvLogger::new(folder.path()).unwrap();
    logger.write(&learner()).unwrap();
    logger.flush().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let header = "learner_steps,env_steps,learner_walltime_s,seconds,loss";
    let rows: Vec<&str> = text.lines().collect();
    assert_eq!(rows[..3], ["2,18,0.1,0.5,1", "3,27,0.", header]);
    assert_eq!((rows.len(), rows[3].split(',').count()), (4, 5));
    assert!(!rows[3].contains(",,"), "{text}");
}

#[test]
fn tensorboard_shows_a_run_that_learns_from_data_by_learner_steps() {
    let folder = tempfile::tempdir().unwrap();
    let mut logger = TensorBoardLogger::new(folder.path()).unwrap();
    let report = LearnerReport {
        learner_steps: 300,
        env_steps: 0,
        walltime_s: 0.1,
        seconds: 0.5,
        metrics: Vec::new(),
    };
    logger.write(&Report::Learner(report)).unwrap();
    logger.flush().unwrap();
    let file = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap();
    let bytes = std::fs::read(file.path()).unwrap();
    // Field 2 of an event is its step.
    assert!(bytes.windows(3).any(|part| part == b"\x10\xac\x02"));
}

#[test]
fn the_terminal_logger_limits_its_rate() {
    let shared = Shared::default();
    let mut terminal = TerminalLogger::new(shared.clone(), Duration::from_secs(3_600));
    for report in [actor(9), actor(18), learner(), learner()] {
        terminal.write(&report).unwrap();
    }
    terminal.flush().unwrap();
    let text = String::from_utf8(shared.0.lock().unwrap().clone()).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(
        lines[0]
            .starts_with("[actor] actor = 0 | episode = 1 | episode length = 9 | episode return = -0.500")
    );
    assert!(lines[1].ends_with("loss = 0.125"), "{text}");
}
