//! Agents.

use crate::support::{file, outcome};

#[test]
fn an_agent_is_trained_and_its_figures_written() {
    let config = file(".toml", "batch_size = 16\nmin_replay_size = 50\nhidden = [8]\n");
    let json = file(".json", "");
    let (config, json) = (config.to_str().unwrap(), json.to_str().unwrap());
    let args =
        ["rl", "train", "dqn", "--env", "catch/0", "--steps", "200", "--config", config, "--json", json];
    let (code, stdout, stderr) = outcome(&args);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert!(stdout.starts_with("catch/0: mean return "), "{stdout}");
    let figures: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(figures["env_steps"], 207, "23 episodes of 9 steps");
    assert_eq!(figures["episodes"], 23);
    for key in ["mean_return_last_100", "learner_steps", "env_steps_per_s", "samples_per_insert"] {
        assert!(figures[key].is_number(), "{key}: {figures}");
    }
}

#[test]
fn what_cannot_be_trained_is_told() {
    let unknown = file(".toml", "batchsize = 16\n");
    for (more, expected) in [
        (&["--env", "pong"][..], "CartPole-v1"),
        (&["--env", "catch/0", "--config", unknown.to_str().unwrap()], "unknown field `batchsize`"),
        (&["--env", "catch/0", "--config", "nowhere.toml"], "nowhere.toml"),
        (&[], "--env"),
    ] {
        let (code, _, stderr) = outcome(&[&["rl", "train", "dqn"], more].concat());
        assert_eq!(code, Some(2), "{stderr}");
        assert!(stderr.contains(expected), "{stderr}");
    }
    let (code, _, stderr) = outcome(&["rl", "train", "dqn", "--env", "Pendulum-v1"]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("one discrete action"), "{stderr}");
}
