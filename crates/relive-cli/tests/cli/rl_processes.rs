//! Tests runs with processes as workers.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::http::get;
use crate::rl::{folder, json, small, text};
use crate::support::{Served, command, free_address, outcome, signal};

const SCRATCH: &str = "[[table]]\nname = \"scratch\"\n";

pub(crate) fn spawn(args: &[&str]) -> Child {
    command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Returns the output of a process, which must succeed.
pub(crate) fn ended(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Trains with the given options; returns the figures and the trained policy.
fn trained(agent: &str, more: &[&str]) -> (Value, Vec<u8>) {
    let folder = folder();
    let [figures, policy] = ["json", "safetensors"].map(|extension| folder.with_extension(extension));
    let train = ["rl", "train", agent, "--json", text(&figures), "--policy", text(&policy)];
    let (code, _, stderr) = outcome(&[&train, more].concat());
    assert_eq!(code, Some(0), "{stderr}");
    (json(&figures), std::fs::read(policy).unwrap())
}

#[test]
fn processes_give_the_same_results_as_one_thread() {
    let small = ["--set", "hidden=[8]", "--set", "num_envs=4", "--set", "num_steps=16"];
    let of =
        |on: &[&str]| trained("ppo", &[&["--env", "CartPole-v1", "--steps", "600"], &small[..], on].concat());
    let (figures, policy) = of(&["--on", "serial"]);
    for actors in ["1", "2"] {
        let (other, same) = of(&["--on", "processes", "--actors", actors]);
        assert!(policy == same && figures["mean_return_last_100"] == other["mean_return_last_100"]);
    }
}

#[test]
fn agents_with_tables_are_trained_by_processes() {
    let config = small();
    let run = ["--env", "catch/0", "--steps", "4000", "--config", text(&config), "--on", "processes"];
    let (figures, _) = trained("dqn", &run);
    assert!(figures["env_steps"].as_u64() >= Some(4_000), "{figures}");
    let ratio = figures["samples_per_insert"].as_f64().unwrap();
    assert!((ratio - 32.0).abs() < 3.2, "{figures}");
}

#[test]
fn workers_join_a_run_on_a_server() {
    let server = Served::start(".toml", SCRATCH);
    let (config, figures) = (small(), folder());
    let workers =
        ["0", "1"].map(|number| spawn(&["rl", "worker", "--join", &server.address, "--number", number]));
    let driver = spawn(&[
        "rl",
        "train",
        "dqn",
        "--env",
        "catch/0",
        "--steps",
        "4000",
        "--config",
        text(&config),
        "--on",
        "processes",
        "--server",
        &server.address,
        "--no-spawn",
        "--json",
        text(&figures),
    ]);
    ended(driver);
    assert!(json(&figures)["env_steps"].as_u64() >= Some(4_000));
    for worker in workers {
        let output = ended(worker);
        assert!(output.starts_with("worker ") && output.contains("episodes"), "{output}");
    }
}

#[test]
fn the_plan_of_a_running_run_is_shown() {
    let server = Served::start(".toml", SCRATCH);
    let (code, _, stderr) = outcome(&["job", "top", &server.address, "--once"]);
    assert!(code == Some(1) && stderr.contains("has no run of an agent"), "{stderr}");
    let train = ["rl", "train", "ppo", "--env", "CartPole-v1", "--on", "processes", "--actors", "1"];
    let endless = [&train[..], &["--server", &server.address, "--steps", "100000000"]].concat();
    let mut driver = command(&endless).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let shown = loop {
        let (code, stdout, _) = outcome(&["job", "top", &server.address, "--once", "--json"]);
        if code == Some(0) {
            break serde_json::from_str::<Value>(&stdout).unwrap();
        }
    };
    assert_eq!((&shown["agent"], &shown["environment"]), (&"ppo".into(), &"CartPole-v1".into()));
    assert_eq!(shown["operators"][0]["name"], "rounds of workers");
    assert!(shown["env_steps"].as_u64() > Some(0) && shown["version_lag"].is_number(), "{shown}");
    let (_, stdout, _) = outcome(&["job", "top", &server.address, "--once"]);
    assert!(stdout.starts_with("ppo in CartPole-v1: ") && stdout.contains("rounds of workers"), "{stdout}");
    assert!(
        shown["time_by_part"]["step"].as_f64() > Some(0.0) && stdout.contains("\ntime: "),
        "{shown}\n{stdout}"
    );
    driver.kill().unwrap();
    driver.wait().unwrap();
}

#[test]
fn the_end_of_a_run_on_a_server_is_displayed() {
    let server = Served::start(".toml", SCRATCH);
    let train = ["rl", "train", "ppo", "--env", "CartPole-v1", "--on", "processes", "--actors", "1"];
    let (code, _, stderr) = outcome(&[&train[..], &["--server", &server.address, "--steps", "600"]].concat());
    assert_eq!(code, Some(0), "{stderr}");
    // `top` ends with the run.
    let (code, stdout, _) = outcome(&["job", "top", &server.address]);
    assert!(code == Some(0) && stdout.contains("; the run is over\n"), "{stdout}");
    let (_, stdout, _) = outcome(&["job", "top", &server.address, "--once", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&stdout).unwrap()["phase"], "over");
    // A worker that was started for this run and joins too late does not wait for another run.
    let mut late = command(&["rl", "worker", "--supervised", "--join", &server.address]);
    let mut late = late.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let _open = late.stdin.take();
    let actual = late.wait_with_output().unwrap().stdout;
    assert_eq!(String::from_utf8(actual).unwrap(), "worker 0: 0 episodes, 0 steps\n");
}

#[test]
fn a_signal_ends_a_run_whose_server_is_away() {
    let mut server = Served::start(".toml", SCRATCH);
    let train = ["rl", "train", "ppo", "--env", "CartPole-v1", "--on", "processes", "--actors", "1"];
    let driver = spawn(&[&train[..], &["--server", &server.address, "--steps", "100000000"]].concat());
    while outcome(&["job", "top", &server.address, "--once"]).0 != Some(0) {}
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let since = Instant::now();
    signal(&driver, "INT");
    let output = driver.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && stderr.contains("the run was stopped"), "{stderr}");
    // Without the signal, the driver would keep waiting for the server.
    assert!(since.elapsed() < Duration::from_secs(25), "{stderr}");
}

#[test]
fn a_failed_run_reports_the_reason_in_one_line_and_ends_its_workers() {
    let args = ["rl", "train", "dqn", "--env", "catch/0", "--steps", "100000", "--set", "learning_rate=1e30"];
    for on in ["threads", "processes"] {
        let driver = spawn(&[&args[..], &["--on", on]].concat());
        let output = driver.wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        let actual = stderr
            .lines()
            .filter(|line| !line.starts_with("to add a node with workers: "))
            .collect::<Vec<_>>();
        assert!(output.status.code() == Some(1) && actual.len() == 1, "{stderr}");
        assert!(actual[0].starts_with("relive: error: learn failed at item "), "{stderr}");
    }
}

#[test]
fn the_dashboard_shows_a_run_until_a_signal_stops_it_gracefully() {
    let (http, policy) = (free_address(), folder().with_extension("safetensors"));
    let args = ["rl", "train", "dqn", "--env", "catch/0", "--steps", "100000000", "--policy", text(&policy)];
    let on = ["--on", "processes", "--actors", "1", "--http", &http];
    let driver = spawn(&[&args[..], &on].concat());
    let plan = loop {
        // The dashboard appears after a while, and the plan a second later.
        if TcpStream::connect(&http).is_ok()
            && let Ok(plan) = serde_json::from_str::<Value>(&get(&http, "/plan").1)
        {
            break plan;
        }
    };
    let named = |name: &str| {
        let operators = plan["operators"].as_array().unwrap().iter();
        operators.filter(|one| one["name"] == name).cloned().collect::<Vec<_>>()
    };
    assert_eq!((&plan["agent"], &plan["environment"]), (&"dqn".into(), &"catch/0".into()));
    assert!(named("batches").iter().any(|one| one["bytes"].is_number()), "{plan}");
    assert!(named("prefetch(1)").iter().all(|one| one["queued"].is_number()), "{plan}");
    signal(&driver, "INT");
    let output = ended(driver);
    assert!(output.starts_with("catch/0: mean return ") && policy.exists(), "{output}");
}

#[test]
fn a_run_ended_by_a_signal_can_be_resumed() {
    for actors in ["0", "1"] {
        let saved = folder();
        let args = ["rl", "train", "ppo", "--env", "CartPole-v1", "--actors", actors];
        let checkpoints = ["--checkpoint-dir", text(&saved), "--checkpoint-every", "1000000000000"];
        let run = [&args[..], &checkpoints, &["--http", "127.0.0.1:0"][..if actors == "0" { 0 } else { 2 }]]
            .concat();
        let mut driver =
            spawn(&[&run[..], &["--steps", "1000000000000", "--log-dir", text(&saved.join("log"))]].concat());
        let written = || std::fs::read_dir(saved.join("log")).is_ok_and(|files| files.count() > 0);
        while !written() {
            assert!(driver.try_wait().unwrap().is_none());
            std::thread::yield_now();
        }
        signal(&driver, "TERM");
        ended(driver);
        assert!(has_checkpoint(&saved));
        let (code, _, stderr) = outcome(&[&args[..], &checkpoints, &["--steps", "1"]].concat());
        assert!(code == Some(0) && stderr.contains("resumed from"), "{stderr}");
    }
}

#[test]
fn the_graph_of_a_plan_is_printed() {
    for (format, expected) in
        [("text", "replay(replay)"), ("mermaid", "flowchart"), ("json", "{\"name\":\"replay(replay)\"")]
    {
        let train = ["rl", "train", "dqn", "--env", "catch/0", "--steps", "100", "--graph", format];
        let (code, stdout, stderr) = outcome(&train);
        assert_eq!(code, Some(0), "{stderr}");
        assert!(stdout.starts_with("catch/0: ") && stdout.contains(expected), "{stdout}");
    }
}

/// Returns the processes that the child process has started.
pub(crate) fn children(parent: &Child) -> Vec<u32> {
    let tasks = format!("/proc/{0}/task", parent.id());
    let tasks = std::fs::read_dir(tasks).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().map(|id| id.parse().unwrap()).collect::<Vec<_>>()).collect()
}

pub(crate) fn kill(process: u32) {
    assert!(Command::new("kill").args(["-KILL", &process.to_string()]).status().unwrap().success());
}

pub(crate) fn is_running(process: u32) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    !state.is_empty() && !state.contains(") Z ")
}

#[test]
fn a_killed_worker_is_restarted_and_ends_with_its_driver() {
    for agent in ["ppo", "dqn"] {
        let mut driver = command(&[
            "rl",
            "train",
            agent,
            "--env",
            "CartPole-v1",
            "--steps",
            "100000000",
            "--on",
            "processes",
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
        let mut lines = BufReader::new(driver.stderr.take().unwrap()).lines().map(Result::unwrap);
        while children(&driver).len() < 2 {
            std::thread::yield_now();
        }
        kill(children(&driver)[0]);
        let actual = lines.find(|line| line.contains("restarting it")).expect("the restart is logged");
        assert!(actual.contains("ended with signal 9"), "{actual}");
        while children(&driver).iter().filter(|child| is_running(**child)).count() < 2 {
            std::thread::yield_now();
        }
        let workers = children(&driver);
        signal(&driver, "KILL");
        driver.wait().unwrap();
        while workers.iter().any(|worker| is_running(*worker)) {
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_killed_driver_resumes_from_its_checkpoint() {
    let saved = folder();
    let config = small();
    let run = |steps: &str| {
        let args = [
            "rl",
            "train",
            "dqn",
            "--env",
            "catch/0",
            "--on",
            "processes",
            "--actors",
            "1",
            "--steps",
            steps,
        ];
        let more = ["--config", text(&config), "--checkpoint-dir", text(&saved), "--checkpoint-every", "300"];
        [&args[..], &more].concat().into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let endless = run("100000000");
    let endless: Vec<&str> = endless.iter().map(String::as_str).collect();
    let mut driver = command(&endless).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !has_checkpoint(&saved) {
        assert!(driver.try_wait().unwrap().is_none());
        std::thread::yield_now();
    }
    signal(&driver, "KILL");
    driver.wait().unwrap();
    let again = run("1000");
    let (code, _, stderr) = outcome(&again.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains(&format!("resumed from {} at step ", text(&saved))), "{stderr}");
}

pub(crate) fn has_checkpoint(folder: &Path) -> bool {
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.filter(|name| name.to_string_lossy().starts_with("checkpoint-")).count() > 0
}

#[test]
fn an_unreachable_server_is_reported() {
    let address = free_address();
    let train = ["rl", "train", "dqn", "--env", "catch/0", "--on", "processes", "--server"];
    for begin in [&train[..], &["rl", "worker", "--join"]] {
        let (code, _, stderr) = outcome(&[begin, &[&address, "--timeout", "1.5"]].concat());
        assert_eq!(code, Some(3), "{stderr}");
        assert!(stderr.contains("waiting up to 1.5 s"), "{stderr}");
        assert!(stderr.contains(&format!("relive: error: cannot connect to {address}")), "{stderr}");
    }
}

#[test]
fn an_existing_foreign_table_is_refused() {
    let server = Served::start(".toml", "[[table]]\nname = \"replay\"\nsampler = \"fifo\"\nmax_size = 50\n");
    let train = ["rl", "train", "dqn", "--env", "catch/0", "--on", "processes", "--no-spawn"];
    let (code, _, stderr) = outcome(&[&train[..], &["--server", &server.address]].concat());
    assert_eq!(code, Some(1), "{stderr}");
    assert!(
        stderr.contains("table `replay`") && stderr.contains("max_size is 50, but must be 1000000"),
        "{stderr}"
    );
}

#[test]
fn waiting_workers_report_it_and_a_second_learner_is_refused() {
    let server = Served::start(".toml", SCRATCH);
    let worker = ["rl", "worker", "--join", &server.address];
    let train = [
        "rl",
        "train",
        "dqn",
        "--env",
        "catch/0",
        "--on",
        "processes",
        "--no-spawn",
        "--server",
        &server.address,
    ];
    let waiting = |args: &[&str], expected: &str| {
        let mut child = command(args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let actual = lines.map(Result::unwrap).any(|line| line.contains(expected));
        assert!(actual, "{args:?} has ended without {expected}");
        child
    };
    let mut worker = waiting(&worker, "no driver is active: waiting for one");
    worker.kill().unwrap();
    let mut driver = waiting(&train, "the run is waiting for ");
    let (code, _, stderr) = outcome(&train);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("another driver is active for this server's run"), "{stderr}");
    driver.kill().unwrap();
    for mut child in [worker, driver] {
        child.wait().unwrap();
    }
}

#[test]
fn a_surplus_worker_is_refused_and_the_run_continues() {
    let server = Served::start(".toml", SCRATCH);
    let train = [
        "rl",
        "train",
        "ppo",
        "--env",
        "CartPole-v1",
        "--on",
        "processes",
        "--actors",
        "1",
        "--steps",
        "4000",
    ];
    let driver = spawn(&[&train[..], &["--no-spawn", "--server", &server.address]].concat());
    for (number, expected) in [("3", "below the run's number of actors"), ("4294967295", "below 65536")] {
        let (code, _, stderr) = outcome(&["rl", "worker", "--join", &server.address, "--number", number]);
        assert_eq!(code, Some(2), "{stderr}");
        assert!(stderr.contains("the number of the worker is ") && stderr.contains(expected), "{stderr}");
    }
    ended(spawn(&["rl", "worker", "--join", &server.address]));
    assert!(ended(driver).starts_with("CartPole-v1: "));
}
