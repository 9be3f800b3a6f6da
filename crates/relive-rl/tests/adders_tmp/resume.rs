//! Runs that are resumed.

use std::path::PathBuf;

use relive_rl::RlError;
use relive_rl::dqn::DqnConfig;
use relive_rl::experiment::{Checkpoints, Evaluation, Report, RunOptions, Trained, train};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("relive-resume-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn config() -> DqnConfig {
    DqnConfig { batch_size: 16, min_replay_size: 50, max_replay_size: 300, ..DqnConfig::default() }
}

/// What was trained, and the returns of all episodes, those of the evaluator behind a marker.
fn run(folder: &Folder, env_steps: u64, actors: usize) -> (Trained, Vec<(bool, u64, f64)>) {
    let options = RunOptions {
        environment: "catch/0".to_owned(),
        env_steps,
        seed: 3,
        actors,
        evaluation: Some(Evaluation { every: 300, episodes: 2 }),
        checkpoints: Some(Checkpoints { folder: folder.0.clone(), every: 200 }),
        ..RunOptions::default()
    };
    let mut returns = Vec::new();
    let make = |seed| Ok(relive_env::make("catch/0", seed)?);
    let trained = train(&config(), &options, &make, &mut |report| match report {
        Report::Actor(episode) => returns.push((false, episode.env_steps, episode.episode_return)),
        Report::Evaluator(episode) => returns.push((true, episode.env_steps, episode.episode_return)),
        Report::Learner(_) => {}
    });
    (trained.unwrap(), returns)
}

#[test]
fn a_url_is_no_folder_for_a_run() {
    for actors in [0, 1] {
        let checkpoints = Some(Checkpoints { folder: "s3://bucket/run".into(), every: 200 });
        let options = RunOptions { env_steps: 9, actors, checkpoints, ..RunOptions::default() };
        let make = |seed| Ok(relive_env::make("catch/0", seed)?);
        let error = train(&config(), &options, &make, &mut |_| {}).unwrap_err();
        let RlError::Setting { name, got, expected } = error else { panic!("{error}") };
        assert_eq!((name, got.as_str()), ("the folder of checkpoints", "s3://bucket/run"));
        assert!(expected.starts_with("the path of a folder"), "{expected}");
        assert!(!PathBuf::from("s3:").exists(), "a folder of that name was made");
    }
}

#[test]
fn a_resumed_run_gives_the_numbers_of_one_that_never_ended() {
    let (whole, parts) = (Folder::new("whole"), Folder::new("parts"));
    let (trained, returns) = run(&whole, 1_200, 0);
    // Each ends behind a checkpoint, and what came after it is played again.
    for end in [250, 450, 900] {
        run(&parts, end, 0);
    }
    let (resumed, last) = run(&parts, 1_200, 0);
    // Episodes have nine steps: the newest checkpoint is of step 801.
    let played_again: Vec<_> = returns.into_iter().filter(|(_, steps, _)| *steps > 801).collect();
    assert_eq!((last[0].1, last.len()), (810, 45 + 4), "{last:?}");
    assert_eq!(last, played_again);
    assert_eq!(resumed.params.values(), trained.params.values());
    assert_eq!(resumed.summary.mean_return_last_100, trained.summary.mean_return_last_100);
    assert_eq!(resumed.summary.learner_steps, trained.summary.learner_steps);
    assert_eq!(resumed.summary.episodes, trained.summary.episodes);
}

#[test]
fn actors_beside_a_learner_go_on_from_its_checkpoint() {
    let folder = Folder::new("threads");
    let (first, _) = run(&folder, 2_000, 2);
    let (second, returns) = run(&folder, 4_000, 2);
    assert!(returns[0].1 > 200, "{returns:?}");
    assert!(second.summary.env_steps >= 4_000);
    assert!(second.summary.learner_steps > first.summary.learner_steps);
    // It can be resumed in one thread as well.
    assert!(run(&folder, 4_500, 0).0.summary.learner_steps > 0);
}

#[test]
fn checkpoints_of_others_are_refused() {
    for actors in [0, 1] {
        let folder = Folder::new(&format!("others-{actors}"));
        run(&folder, 300, actors);
        let refused = |environment: &str, seed, config: &DqnConfig| {
            let checkpoints = Some(Checkpoints { folder: folder.0.clone(), every: 200 });
            let name = environment.to_owned();
            let options =
                RunOptions { environment: name, env_steps: 400, seed, checkpoints, ..RunOptions::default() };
            let make = |seed| Ok(relive_env::make(environment, seed)?);
            train(config, &options, &make, &mut |_| {}).unwrap_err().to_string()
        };
        let learning_rate = DqnConfig { learning_rate: 0.5, ..config() };
        let hidden = DqnConfig { hidden: vec![4], ..config() };
        for (error, expected) in [
            (refused("catch/1", 3, &config()), "environment is catch/0 there, catch/1 was asked for; "),
            (refused("catch/0", 2, &config()), "seed is 3 there, 2 was asked for; "),
            (refused("catch/0", 3, &learning_rate), "learning_rate is 0.001 there, 0.5 was asked for; "),
            (refused("catch/0", 3, &hidden), "hidden is [50,50] there, [4] was asked for; "),
        ] {
            let begin = format!("the run in {} is another one: ", folder.0.display());
            assert!(error.starts_with(&begin) && error.contains(expected), "{error}");
            assert!(error.ends_with("give another folder for checkpoints (--checkpoint-dir)"), "{error}");
        }
        // The run itself may go on, and be longer.
        run(&folder, 400, actors);
    }
}
