//! `relive rl plan`.

use serde_json::Value;

use crate::rl::{folder, text};
use crate::support::{file, outcome};

const SMALL: [&str; 10] = [
    "ppo",
    "--env",
    "CartPole-v1",
    "--set",
    "hidden=[8]",
    "--set",
    "num_envs=4",
    "--set",
    "num_steps=16",
    "--json",
];

fn planned(agent: &[&str], more: &[&str]) -> (Option<i32>, String, String) {
    outcome(&[&["rl", "plan"], agent, more].concat())
}

#[test]
fn costs_are_measured_once_and_a_cluster_is_predicted_from_them() {
    let costs = folder().with_extension("json");
    let kept = ["--costs", text(&costs), "--seconds", "0.3"];
    let (code, stdout, stderr) = planned(&SMALL, &kept);
    assert_eq!(code, Some(0), "{stderr}");
    let actual: Value = serde_json::from_str(&stdout).unwrap();
    assert!(actual["prediction"]["env_steps_per_s"].as_f64() > Some(0.0), "{actual}");
    let measured = std::fs::read_to_string(&costs).unwrap();
    let fields: Value = serde_json::from_str(&measured).unwrap();
    // Starts of episodes do not count as steps.
    let round = fields["round"].as_f64().unwrap();
    assert!(fields["rows"] == 4 && (50.0..=64.0).contains(&round), "{fields}");
    assert!(fields["learner_s"].as_f64() > Some(0.0) && fields["acting"][0]["act_s"].as_f64() > Some(0.0));
    // The same costs give the same numbers, on any machine.
    let cluster = ["--nodes", "4", "--actors", "16", "--envs", "16", "--cpus", "8"];
    let [one, other] = [(); 2].map(|()| planned(&SMALL, &[&kept[..], &cluster].concat()));
    assert!(one.0 == Some(0) && one.1 == other.1, "{one:?} {other:?}");
    assert!(
        one.2.contains("ppo acts in 4 environments; a run in 16 environments needs other settings"),
        "{}",
        one.2
    );
    assert_eq!(std::fs::read_to_string(&costs).unwrap(), measured);
    let (_, stdout, _) = planned(&SMALL[..9], &kept);
    assert!(stdout.contains("first bottleneck") && stdout.contains("1 machine of"), "{stdout}");
    // Other settings result in other costs.
    let (code, _, stderr) = planned(&["ppo", "--env", "CartPole-v1"], &kept);
    assert!(code == Some(2) && stderr.contains("num_envs: the file of costs has 4"), "{stderr}");
    let (code, _, stderr) = planned(&["impala", "--env", "CartPole-v1"], &kept);
    assert!(
        code == Some(2) && stderr.contains("agent: the file of costs has ppo, this run has impala"),
        "{stderr}"
    );
}

#[test]
fn invalid_plans_are_refused() {
    let (code, _, stderr) = planned(&["bc", "--env", "catch/0"], &[]);
    assert!(code == Some(2) && stderr.contains("bc learns only from recorded episodes"), "{stderr}");
    let damaged = file(".json", "{}");
    let (code, _, stderr) = planned(&SMALL, &["--costs", text(&damaged)]);
    assert!(code == Some(2) && stderr.contains("--costs") && stderr.contains("missing field"), "{stderr}");
    let nowhere = folder().join("none").join("costs.json");
    let (code, _, stderr) = planned(&SMALL, &["--costs", text(&nowhere)]);
    assert!(code == Some(2) && stderr.contains("there is no folder"), "{stderr}");
    let (code, _, stderr) = planned(&["dqn", "--env", "Pendulum-v1"], &[]);
    assert!(code == Some(2) && stderr.contains("takes"), "{stderr}");
}
