//! Tests runs with several learners.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::rl::{folder, json, small, text};
use crate::rl_processes::{children, has_checkpoint, kill};
use crate::support::{command, outcome, signal};

#[test]
fn two_learners_reach_the_return_of_cart_pole() {
    for on in ["threads", "processes"] {
        let figures = folder().with_extension("json");
        let run = ["rl", "train", "ppo", "--env", "CartPole-v1", "--steps", "100000", "--until", "400"];
        let more = ["--on", on, "--learners", "2", "--json", text(&figures)];
        let (code, _, stderr) = outcome(&[&run[..], &more].concat());
        assert_eq!(code, Some(0), "{stderr}");
        let figures = json(&figures);
        assert!(figures["env_steps"].as_u64() < Some(100_000), "{on}: {figures}");
    }
}

#[test]
fn learners_of_one_replay_table_keep_the_ratio_jointly() {
    let (config, figures) = (small(), folder().with_extension("json"));
    let run = ["rl", "train", "dqn", "--env", "catch/0", "--steps", "4000", "--config", text(&config)];
    let (code, _, stderr) = outcome(&[&run[..], &["--learners", "2", "--json", text(&figures)]].concat());
    assert_eq!(code, Some(0), "{stderr}");
    let figures = json(&figures);
    let ratio = figures["samples_per_insert"].as_f64().unwrap();
    assert!((ratio - 32.0).abs() < 3.2, "{figures}");
}

#[test]
fn a_killed_learner_ends_the_run_which_resumes_from_its_checkpoint() {
    let saved = folder();
    let run = |steps: &'static str| {
        let run =
            ["rl", "train", "ppo", "--env", "CartPole-v1", "--actors", "1", "--learners", "2", "--steps"];
        let saved = ["--checkpoint-dir", text(&saved), "--checkpoint-every", "2000"];
        [&run[..], &[steps], &saved].concat().into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let words = |run: &[String]| run.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
    let endless = run("100000000");
    let endless: Vec<&str> = endless.iter().map(String::as_str).collect();
    let mut driver = command(&endless).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    while !has_checkpoint(&saved) {
        assert!(driver.try_wait().unwrap().is_none());
        std::thread::yield_now();
    }
    let [learner] = children(&driver)[..] else { panic!("{:?}", children(&driver)) };
    kill(learner);
    let lines = BufReader::new(driver.stderr.take().unwrap()).lines().map(Result::unwrap);
    let actual = lines.last().unwrap();
    assert!(!driver.wait().unwrap().success());
    let named =
        actual.contains("learners: lost member 1 (") && actual.contains(&format!("process {learner})"));
    assert!(named && actual.contains("resumes from the newest"), "{actual}");
    let again = run("30000");
    let (code, _, stderr) = outcome(&again.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(code == Some(0) && stderr.contains("resumed from"), "{}: {stderr}", words(&again));
}

#[test]
fn a_run_can_be_stopped_before_any_learner_joins() {
    let run = ["rl", "train", "dqn", "--env", "CartPole-v1", "--steps", "100000000", "--on", "processes"];
    let logs = folder();
    let mut driver = command(&[&run[..], &["--learners", "2", "--log-dir", text(&logs)]].concat());
    let mut driver = driver.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // The folder exists once the run can be stopped.
    while !logs.exists() {
        std::thread::yield_now();
    }
    signal(&driver, "INT");
    let since = Instant::now();
    assert!(driver.wait().unwrap().success());
    // Regression test: the run once waited 4 s for workers, and then 4 s for learners.
    assert!(since.elapsed() < Duration::from_secs(8), "{:?}", since.elapsed());
}

#[test]
fn invalid_learner_settings_are_refused() {
    let refused = |args: &[&str], expected: &str| {
        let (code, _, stderr) = outcome(&[&["rl", "train"], args].concat());
        assert!(code == Some(2) && stderr.contains(expected), "{args:?}: {code:?} {stderr}");
    };
    let ppo =
        |more: &[&str], expected: &str| refused(&[&["ppo", "--env", "CartPole-v1"], more].concat(), expected);
    ppo(&["--learners", "0"], "--learners");
    ppo(&["--learners", "65"], "--learners");
    ppo(&["--learners", "2", "--on", "serial"], "--learners requires --actors of at least 1");
    ppo(&["--learners", "2", "--actors", "0"], "--learners requires --actors of at least 1");
    ppo(
        &["--learners", "2", "--on", "processes", "--server", "127.0.0.1:1"],
        "cannot be combined with --server",
    );
    refused(
        &["a3c", "--env", "CartPole-v1", "--learners", "2"],
        "learners is 2, but it must be 1 for this agent, whose learner cannot share gradients with other learners",
    );
    let data = folder();
    refused(
        &["bc", "--env", "catch/0", "--data", text(&data), "--learner-steps", "5", "--learners", "2"],
        "--data cannot be combined with --learners",
    );
}
