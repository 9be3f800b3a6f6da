//! Tests nodes, which join a run in progress.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::rl::{folder, json, small, text};
use crate::rl_processes::{children, ended, is_running, kill, spawn};
use crate::support::{Served, command, file, free_address, outcome, signal};

/// Returns a run that starts no workers, and its address.
fn driver(agent: &str, more: &[&str]) -> (Child, String) {
    let address = free_address();
    let train = ["rl", "train", agent, "--on", "processes", "--no-spawn", "--listen", &address];
    (
        command(&[&train[..], more].concat()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap(),
        address,
    )
}

/// Returns a node with `actors` workers.
fn node(address: &str, name: &str, actors: &str, more: &[&str]) -> Child {
    let join = ["rl", "node", "--join", address, "--name", name, "--actors", actors];
    command(&[&join[..], more].concat()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Returns the run's nodes, once they are as expected.
pub(crate) fn nodes(address: &str, expected: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let begun = Instant::now();
    loop {
        let (code, stdout, stderr) = outcome(&["job", "top", address, "--once", "--json"]);
        assert_ne!(code, Some(2), "{stderr}");
        assert!(begun.elapsed() < Duration::from_mins(3), "the nodes are not as expected: {stdout}{stderr}");
        let shown: Option<Value> = (code == Some(0)).then(|| serde_json::from_str(&stdout).unwrap());
        if let Some(nodes) = shown.as_ref().and_then(|shown| shown["nodes"].as_array())
            && expected(nodes)
        {
            return nodes.clone();
        }
    }
}

fn workers(nodes: &[Value]) -> u64 {
    nodes.iter().filter(|node| node["state"] == "up").map(|node| node["workers"].as_u64().unwrap()).sum()
}

/// Returns the logs of all processes of a run.
fn logged(address: &str) -> String {
    let (code, stdout, stderr) = outcome(&["job", "logs", address]);
    assert_ne!(code, Some(2), "{stderr}");
    stdout
}

/// Returns the first line on stderr that contains a text.
fn wait_for_line(child: &mut Child, expected: &str) -> String {
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let found = lines
        .find(|line| line.contains(expected))
        .unwrap_or_else(|| panic!("it has ended without {expected:?}"));
    // The process continues to write.
    std::thread::spawn(move || lines.for_each(drop));
    found
}

#[test]
fn nodes_join_a_running_run_and_each_slot_is_assigned_once() {
    let (config, figures) = (small(), folder());
    let run = ["--env", "catch/0", "--steps", "1000000000", "--actors", "2", "--config", text(&config)];
    let (mut driver, address) = driver("dqn", &[&run[..], &["--json", text(&figures)]].concat());
    let first = [node(&address, "a", "2", &[]), node(&address, "b", "2", &[])];
    let shown = nodes(&address, |nodes| workers(nodes) == 4);
    let names: Vec<&str> = shown.iter().map(|node| node["name"].as_str().unwrap()).collect();
    assert!(names == ["a", "b"] || names == ["b", "a"], "{names:?}");
    for key in ["host", "address", "restarts", "env_steps", "weights_version", "seen_seconds"] {
        assert!(shown.iter().all(|node| !node[key].is_null()), "{key}: {shown:?}");
    }
    let later = node(&address, "c", "1", &[]);
    let shown =
        nodes(&address, |nodes| workers(nodes) == 5 && nodes.iter().all(|node| node["env_steps"] != 0));
    assert_eq!(shown.len(), 3);
    let mut places: Vec<u64> = Vec::new();
    for node in &shown {
        places.extend(node["places"].as_array().unwrap().iter().map(|number| number.as_u64().unwrap()));
    }
    places.sort_unstable();
    assert_eq!(places, [0, 1, 2, 3, 4]);
    // The logs of workers 2 to 4 have reached the run from other nodes.
    while (0..5).any(|number| !logged(&address).contains(&format!("worker {number} on "))) {}
    // If two workers had the same number, the driver would log this.
    signal(&driver, "INT");
    let driver_lines = driver.stderr.take().unwrap();
    let driver_lines: Vec<String> = BufReader::new(driver_lines).lines().map(Result::unwrap).collect();
    assert!(
        driver.wait().unwrap().success() && !driver_lines.iter().any(|line| line.contains("joined again")),
        "{driver_lines:?}"
    );
    for (child, name) in first.into_iter().chain([later]).zip(["a: 2", "b: 2", "c: 1"]) {
        let output = ended(child);
        assert!(output.contains(&format!("{name} workers, 0 restarts")), "{output}");
    }
    let ratio = json(&figures)["samples_per_insert"].as_f64().unwrap();
    assert!((ratio - 32.0).abs() < 3.2, "{ratio}");
}

#[test]
fn slots_of_a_killed_node_are_reassigned_and_the_run_continues() {
    let run = ["--env", "CartPole-v1", "--steps", "1000000000", "--actors", "2"];
    let (mut driver, address) = driver("ppo", &run);
    let mut first = node(&address, "a", "2", &[]);
    nodes(&address, |nodes| workers(nodes) == 2);
    let its = children(&first);
    assert_eq!(its.len(), 2);
    let mut second = node(&address, "b", "3", &[]);
    let line = wait_for_line(&mut second, "this node has places for 0 of its 3 workers");
    assert!(line.contains("has synchronous rounds, for exactly 2 actors"), "{line}");
    first.kill().unwrap();
    first.wait().unwrap();
    while its.iter().any(|worker| is_running(*worker)) {
        std::thread::yield_now();
    }
    let line = wait_for_line(&mut driver, "a has sent no heartbeat for 5 s");
    assert!(line.contains("the places of its 2 workers go to other nodes"), "{line}");
    let shown =
        nodes(&address, |nodes| workers(nodes) == 2 && nodes.iter().all(|node| node["env_steps"] != 0));
    let states: Vec<&str> = shown.iter().map(|node| node["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["gone", "up"]);
    signal(&driver, "INT");
    assert!(driver.wait().unwrap().success());
    let status = second.wait().unwrap();
    assert!(status.success());
}

#[test]
fn a_node_restarts_its_workers_and_releases_its_slots_at_the_end() {
    let run = ["--env", "CartPole-v1", "--steps", "1000000000", "--actors", "1"];
    let (mut driver, address) = driver("ppo", &run);
    let mut first = node(&address, "a", "1", &[]);
    nodes(&address, |nodes| workers(nodes) == 1);
    kill(children(&first)[0]);
    let line = wait_for_line(&mut first, "restarting it");
    assert!(line.contains("worker 0 ended with signal 9"), "{line}");
    nodes(&address, |nodes| nodes[0]["restarts"] == 1 && workers(nodes) == 1);
    let second = node(&address, "b", "1", &[]);
    signal(&first, "TERM");
    assert!(first.wait().unwrap().success());
    let shown = nodes(&address, |nodes| nodes.iter().any(|node| node["name"] == "b" && node["workers"] == 1));
    assert!(shown.iter().any(|node| node["name"] == "a" && node["state"] == "gone"), "{shown:?}");
    signal(&driver, "INT");
    assert!(driver.wait().unwrap().success());
    ended(second);
}

#[test]
fn nodes_that_cannot_join_report_the_reason() {
    let address = free_address();
    let (code, _, stderr) = outcome(&["rl", "node", "--join", &address, "--timeout", "1.5"]);
    assert!(code == Some(3) && stderr.contains(&format!("cannot connect to {address}")), "{stderr}");
    let token = file(".token", "0123456789abcdef0123456789abcdef\n");
    let wrong = file(".token", "another-token-of-somebody-else-0\n");
    let run = ["--env", "catch/0", "--steps", "1000000000", "--actors", "1", "--token-file", text(&token)];
    let (mut driver, address) = driver("dqn", &run);
    let (code, _, stderr) =
        outcome(&["rl", "node", "--join", &address, "--token-file", text(&wrong), "--timeout", "20"]);
    assert!(code == Some(6) && stderr.contains("token"), "{stderr}");
    let mut good = node(&address, "good", "1", &["--token-file", text(&token)]);
    let shown = loop {
        let top = ["job", "top", &address, "--once", "--json", "--token-file", text(&token)];
        let (code, stdout, _) = outcome(&top);
        if code == Some(0) && stdout.contains("\"workers\":1") {
            break stdout;
        }
    };
    assert!(shown.contains("\"name\":\"good\""), "{shown}");
    signal(&driver, "INT");
    assert!(driver.wait().unwrap().success() && good.wait().unwrap().success());
    for (option, value, expected) in [
        ("--name", "a b", "letters, digits"),
        ("--actors", "0", "1..=4096"),
        ("--listen", "0.0.0.0:0", "other nodes cannot connect to"),
    ] {
        let server = Served::start(".toml", "[[table]]\nname = \"scratch\"\n");
        let (code, _, stderr) = outcome(&["rl", "node", "--join", &server.address, option, value]);
        assert!(code == Some(2) && stderr.contains(expected), "{stderr}");
    }
}

#[test]
fn a_node_does_not_switch_to_another_run() {
    let server = Served::start(".toml", "[[table]]\nname = \"scratch\"\n");
    let train =
        ["rl", "train", "dqn", "--env", "catch/0", "--on", "processes", "--actors", "1", "--no-spawn"];
    let mut driver = spawn(&[&train[..], &["--server", &server.address, "--steps", "1000000000"]].concat());
    let node = node(&server.address, "a", "1", &[]);
    nodes(&server.address, |nodes| workers(nodes) == 1);
    driver.kill().unwrap();
    driver.wait().unwrap();
    for table in ["run", "counts"] {
        assert_eq!(outcome(&["table", "drop", &server.address, table]).0, Some(0));
    }
    let other =
        ["rl", "train", "dqn", "--env", "deep_sea/0", "--on", "processes", "--actors", "1", "--no-spawn"];
    let mut driver = spawn(&[&other[..], &["--server", &server.address, "--steps", "1000000000"]].concat());
    let output = node.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    let expected = "this node has a different run: environment: the node's run has catch/0, the server's run has deep_sea/0";
    assert!(output.status.code() == Some(2) && stderr.contains(expected), "{stderr}");
    driver.kill().unwrap();
    driver.wait().unwrap();
}
