//! Agents.

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::rl_data::shown;
use crate::support::{command, file, outcome, signal};

/// Returns the path of a separate folder that does not exist yet.
pub(crate) fn folder() -> PathBuf {
    // Folders of earlier runs of these tests may still exist.
    let path = file(&format!(".{}.run", std::process::id()), "");
    std::fs::remove_file(&path).unwrap();
    path
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Returns settings with which learning takes little time.
pub(crate) fn small() -> PathBuf {
    file(".toml", "batch_size = 16\nmin_replay_size = 50\nhidden = [8]\n")
}

pub(crate) fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Runs the program, which must succeed; returns its output.
pub(crate) fn succeeds(args: &[&str]) -> String {
    let (code, stdout, stderr) = outcome(args);
    assert_eq!(code, Some(0), "{args:?}: {stderr}");
    stdout
}

#[test]
fn an_agent_is_trained_and_its_results_are_written() {
    let config = file(".toml", "batch_size = 16\nmin_replay_size = 50\nhidden = [8]\n");
    let json = file(".json", "");
    let (config, json) = (config.to_str().unwrap(), json.to_str().unwrap());
    let args =
        ["rl", "train", "dqn", "--env", "catch/0", "--steps", "200", "--config", config, "--json", json];
    let (code, stdout, stderr) = outcome(&args);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert!(stdout.starts_with("catch/0: mean return "), "{stdout}");
    let figures: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(figures["env_steps"], 200);
    assert_eq!(figures["episodes"], 22, "of 9 steps");
    for key in ["mean_return_last_100", "learner_steps", "env_steps_per_s", "samples_per_insert"] {
        assert!(figures[key].is_number(), "{key}: {figures}");
    }
}

#[test]
fn plans_give_the_same_results_with_any_number_of_threads() {
    let trained = |agent: &str, actors: &str| {
        let folder = folder();
        let [json_file, policy] = ["json", "safetensors"].map(|extension| folder.with_extension(extension));
        let (env, steps) = (["--env", "Pendulum-v1"], ["--steps", "1000", "--actors", actors]);
        let files = ["--json", text(&json_file), "--policy", text(&policy)];
        let set = ["--set", "hidden=[8]", "--set", "num_envs=4", "--set", "num_steps=16"];
        let stdout = succeeds(&[&["rl", "train", agent], &env[..], &steps, &files, &set].concat());
        assert!(stdout.starts_with("Pendulum-v1: mean return "), "{stdout}");
        let figures = json(&json_file);
        assert!(figures["env_steps"].as_u64() >= Some(1_000) && figures["learner_steps"].as_u64() > Some(0));
        (figures["mean_return_last_100"].clone(), std::fs::read(policy).unwrap())
    };
    for agent in ["ppo", "a2c"] {
        let alone = trained(agent, "0");
        assert!(trained(agent, "2") == alone && trained(agent, "4") == alone, "{agent}");
    }
}

#[test]
fn invalid_plan_settings_are_reported() {
    let unknown = file(".toml", "epoch = 16\n");
    for (more, expected) in [
        (&["--config", text(&unknown)][..], "the name of a setting is epoch, but it must be one of num_envs"),
        (&["--set", "epoch=1"], "--set epoch=1"),
        (&["--set", "epochs"], "KEY=VALUE"),
        (
            &["--set", "epochs=many"],
            "--set epochs=many: epochs is \"many\", but it must be a whole number, at least 0",
        ),
        (&["--set", "epochs=4\nclip=3"], "epochs is \"4\\nclip=3\""),
        (&["--set", "clip=-1"], "clip is -1, but it must be above 0"),
        (&["--actors", "9"], "actors is 9"),
    ] {
        let (code, _, stderr) = outcome(&[&["rl", "train", "ppo", "--env", "CartPole-v1"], more].concat());
        assert_eq!(code, Some(2), "{stderr}");
        assert!(stderr.contains(expected), "{stderr}");
    }
}

#[test]
fn invalid_training_arguments_are_reported() {
    let unknown = file(".toml", "batchsize = 16\n");
    for (more, expected) in [
        (&["--env", "pong"][..], "CartPole-v1"),
        (&["--env", "catch/0", "--config", unknown.to_str().unwrap()], "the name of a setting is batchsize"),
        (&["--env", "catch/0", "--config", "nowhere.toml"], "nowhere.toml"),
        (&["--env", "catch/0", "--policy", "/nowhere/p"], "--policy /nowhere/p: there is no folder /nowhere"),
        (&["--env", "catch/0", "--json", "/"], "--json /: it is a folder"),
        // No file can be created in this folder, which is detected before learning starts.
        (&["--env", "catch/0", "--steps", "1000000000", "--policy", "/proc/p"], "--policy"),
        (&["--env", "catch/0", "--steps", "1000000000", "--json", "/proc/p"], "--json /proc/p"),
        (&[], "--env"),
    ] {
        let (code, _, stderr) = outcome(&[&["rl", "train", "dqn"], more].concat());
        assert_eq!(code, Some(2), "{stderr}");
        assert!(stderr.contains(expected), "{stderr}");
    }
    let (code, _, stderr) = outcome(&["rl", "train", "dqn", "--env", "Pendulum-v1"]);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("one discrete action"), "{stderr}");
}

#[test]
fn a_killed_run_resumes_with_identical_results() {
    let config = small();
    killed_and_resumed(&["dqn", "--env", "catch/0", "--steps", "40000", "--config", text(&config)]);
    let ppo =
        ["ppo", "--env", "CartPole-v1", "--steps", "100000", "--set", "num_steps=32", "--set", "hidden=[8]"];
    killed_and_resumed(&ppo);
}

fn killed_and_resumed(what: &[&str]) {
    let run = |folder: &Path| {
        let (json, policy) = (folder.with_extension("json"), folder.with_extension("safetensors"));
        let paths = [&json, &policy, folder].map(|path| text(path).to_owned());
        let [json, policy, folder] = &paths;
        let more =
            ["--json", json, "--policy", policy, "--checkpoint-dir", folder, "--checkpoint-every", "1000"];
        let logs = ["--log-dir", &format!("{folder}/log"), "--logs", "jsonl,csv", "--evaluate-every", "3000"];
        [&["rl", "train"], what, &more[..], &logs].concat().into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let (whole, killed) = (folder(), folder());
    for (folder, times) in [(&whole, 0), (&killed, 2)] {
        let args = run(folder);
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        for before in 0..times {
            // This is determined before the run starts, because the run may have written a checkpoint by the time this
            // thread continues.
            let first = newest_checkpoint(folder);
            assert_eq!(first.is_some(), before > 0);
            let mut child = command(&args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
            wait_for_another_checkpoint(folder, first.as_ref(), &mut child);
            signal(&child, "KILL");
            assert!(!child.wait().unwrap().success(), "it was killed on its way");
        }
        succeeds(&args);
    }
    let [a, b] = [&whole, &killed].map(|folder| json(&folder.with_extension("json")));
    for key in ["mean_return_last_100", "episodes", "env_steps", "learner_steps", "samples_per_insert"] {
        assert_eq!(a[key], b[key], "{key}");
    }
    let [a, b] = [&whole, &killed].map(|folder| std::fs::read(folder.with_extension("safetensors")).unwrap());
    assert!(a == b, "the trained policies differ");
    for name in ["actor.jsonl", "evaluator.jsonl", "learner.jsonl"] {
        let [a, b] = [&whole, &killed].map(|folder| without_times(&folder.join("log").join(name)));
        assert!(a == b, "{name}: {} lines, {} of the run that was killed", a.len(), b.len());
    }
    let [a, b] = [&whole, &killed].map(|folder| lines(&folder.join("log/actor.csv")));
    // The last three columns are times.
    let without_times = |lines: &[String]| {
        lines.iter().map(|line| line.rsplitn(4, ',').last().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert!(without_times(&a) == without_times(&b), "actor.csv");
}

fn lines(path: &Path) -> Vec<String> {
    std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

/// Returns the lines of a log without the parts that depend on the speed of the machine: times, and reports that are
/// made once a second.
fn without_times(path: &Path) -> Vec<Value> {
    let lines = lines(path).into_iter().map(|line| {
        let mut line: Value = serde_json::from_str(&line).unwrap();
        for time in ["seconds", "learner_walltime_s", "duration_s", "steps_per_second"] {
            line.as_object_mut().unwrap().remove(time);
        }
        line
    });
    let is_exact =
        |line: &Value| line["episode"].is_number() || line["learner_steps"].as_f64().unwrap() % 100.0 == 0.0;
    lines.filter(is_exact).collect()
}

/// Returns the newest checkpoint in a folder, which has the greatest name.
fn newest_checkpoint(folder: &Path) -> Option<OsString> {
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.filter(|name| name.to_string_lossy().starts_with("checkpoint-")).max()
}

/// Waits until a run has written a checkpoint newer than `first`.
fn wait_for_another_checkpoint(folder: &Path, first: Option<&OsString>, child: &mut Child) {
    while newest_checkpoint(folder).as_ref() == first {
        if child.try_wait().unwrap().is_some() {
            let mut actual = String::new();
            child.stderr.take().unwrap().read_to_string(&mut actual).unwrap();
            panic!("the run has ended before it was killed: {actual}");
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_sweep_is_plotted() {
    let (config, out) = (small(), folder());
    let (out, config) = (text(&out), text(&config));
    let stdout = succeeds(&[
        "rl",
        "sweep",
        "dqn",
        "--env",
        "catch/0,bandit/3",
        "--seeds",
        "2",
        "--steps",
        "200",
        "--config",
        config,
        "--out",
        out,
        "--evaluate-every",
        "100",
    ]);
    assert_eq!(stdout.lines().count(), 5, "four runs and the report: {stdout}");
    let about = json(&Path::new(out).join("dqn-bandit_3-2/run.json"));
    assert_eq!((&about["environment"], &about["seed"]), (&"bandit/3".into(), &2.into()));
    assert!(about["evaluator_return"].is_number());
    let scores = std::fs::read_to_string(Path::new(out).join("report/scores.csv")).unwrap();
    let line = scores.lines().find(|line| line.starts_with("dqn,bandit/3,2,")).unwrap();
    let rate: f64 = line.rsplit(',').next().unwrap().parse().unwrap();
    assert!((rate - about["env_steps_per_s"].as_f64().unwrap()).abs() < 1e-6, "{line}");
    for (name, begin, more) in [
        ("curves.png", &b"\x89PNG"[..], &[][..]),
        ("curves.svg", b"<svg", &["--of", "evaluator", "--x", "learner-steps", "--smooth", "1"]),
        ("radar.svg", b"<svg", &["--picture", "radar"]),
    ] {
        let path = folder().with_extension(name);
        assert_eq!(
            succeeds(&[&["rl", "plot", out, "--out", text(&path)], more].concat()).trim(),
            text(&path)
        );
        let bytes = std::fs::read(&path).unwrap();
        assert!(bytes.starts_with(begin), "{name}");
        if name == "radar.svg" {
            assert!(String::from_utf8(bytes).unwrap().contains("exploration"));
        }
    }
}

#[test]
fn a_run_leaves_logs_a_curve_and_shows_its_tables() {
    let (config, out) = (small(), folder());
    let curve = out.join("curve.svg");
    let (code, stdout, stderr) = outcome(&[
        "rl",
        "train",
        "dqn",
        "--env",
        "CartPole-v1",
        "--preset",
        "acme",
        "--config",
        text(&config),
        "--steps",
        "1000",
        "--actors",
        "2",
        "--http",
        "127.0.0.1:0",
        "--evaluate-every",
        "500",
        "--evaluate-episodes",
        "2",
        "--log-dir",
        text(&out),
        "--logs",
        "csv,jsonl,tensorboard",
        "--plot",
        text(&curve),
        "--until",
        "10",
    ]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.starts_with("dashboard at http://127.0.0.1:"), "{stderr}");
    assert!(stdout.contains("without exploration"), "{stdout}");
    for name in ["actor.csv", "actor.jsonl", "evaluator.jsonl", "curve.svg"] {
        assert!(out.join(name).is_file(), "{name}");
    }
    assert!(json(&out.join("run.json"))["until_env_steps"].as_u64().unwrap() < 1_000);
    // Another run must not mix its logs with this run's logs.
    let again = ["rl", "train", "dqn", "--env", "catch/0", "--until", "-100", "--log-dir", text(&out)];
    let (code, _, stderr) = outcome(&again);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("--log-dir: ") && stderr.contains(" already has a run; "), "{stderr}");
}

#[test]
fn evaluations_are_scored_by_a_random_policy_and_an_expert() {
    let (config, written) = (small(), file(".json", ""));
    let score = |environment: &str, more: &[&str]| {
        let train = ["rl", "train", "dqn", "--env", environment, "--steps", "100", "--config", text(&config)];
        let evaluate = ["--evaluate-every", "100", "--evaluate-episodes", "2", "--json", text(&written)];
        let output = succeeds(&[&train[..], &evaluate, more].concat());
        let figures = json(&written);
        assert_eq!(output.contains("normalized score"), figures["normalized_score"].is_number(), "{output}");
        (figures["evaluator_return"].as_f64().unwrap(), figures["normalized_score"].as_f64())
    };
    let (reached, found) = score("catch/0", &["--reference-scores", "-1,1"]);
    assert_eq!(found, Some(50.0 * (reached + 1.0)));
    assert_eq!(score("catch/0", &[]).1, None);
    let (reached, found) = score("CartPole-v1", &[]);
    assert!((found.unwrap() - 100.0 * (reached - 22.5) / 477.5).abs() < 1e-9);
    let refused =
        ["rl", "train", "dqn", "--env", "catch/0", "--evaluate-every", "9", "--reference-scores", "1,1"];
    let (code, _, stderr) = outcome(&refused);
    assert!(code == Some(2) && stderr.contains("two different finite numbers"), "{stderr}");
}

#[test]
fn a_finished_command_that_is_repeated_keeps_its_results() {
    let (config, folder, written) = (small(), folder(), file(".json", ""));
    let train = ["rl", "train", "dqn", "--env", "catch/0", "--steps", "200", "--config", text(&config)];
    let evaluate = ["--evaluate-every", "100", "--evaluate-episodes", "2", "--json", text(&written)];
    let saved = ["--checkpoint-dir", text(&folder), "--checkpoint-every", "20"];
    let results = || {
        succeeds(&[&train[..], &evaluate, &saved].concat());
        json(&written)
    };
    let (first, again) = (results(), results());
    assert!(first["evaluator_return"].is_number(), "{first}");
    assert_eq!(again["evaluator_return"], first["evaluator_return"]);
    let number = |value: &Value| value.as_f64().unwrap();
    let seconds = number(&first["env_steps"]) / number(&first["env_steps_per_s"]);
    let parts: f64 = first["time_by_part"].as_object().unwrap().values().map(number).sum();
    assert!(parts <= seconds, "checkpoints count: {first}");
}

#[test]
fn options_name_the_options_they_require() {
    for (more, expected) in [
        (&["--http", "127.0.0.1:0"][..], "--http requires --actors"),
        (&["--on", "serial", "--actors", "2"], "--on serial does not support --actors"),
        (&["--on", "processes", "--actors", "0"], "require --actors of at least 1"),
        (&["--server", "localhost:1"], "--server requires --on processes"),
        (&["--no-spawn"], "--no-spawn requires --on processes"),
        (&["--plot", "x.png"], "--log-dir"),
        (&["--checkpoint-dir", "x", "--checkpoint-every", "0"], "at least 1"),
        (&["--checkpoint-dir", "s3://bucket/run"], "is s3://bucket/run, but it must be the path of a folder"),
        (&["--until", "nan"], "finite"),
        (&["--steps", "0"], "1.."),
        (&["--steps", "-5"], "-5"),
        (&["--evaluate-every", "0"], "1.."),
    ] {
        let (code, _, stderr) = outcome(&[&["rl", "train", "dqn", "--env", "catch/0"], more].concat());
        assert_eq!(code, Some(2), "{stderr}");
        assert!(stderr.contains(expected), "{stderr}");
    }
    let (code, _, stderr) = outcome(&["rl", "plot", env!("CARGO_TARGET_TMPDIR"), "--out", "x.gif"]);
    assert!(matches!(code, Some(1 | 2)), "{stderr}");
}

#[test]
fn a_saved_run_is_resumed_only_with_the_same_settings() {
    let (config, saved) = (small(), folder());
    let run = |environment: &str, steps: &str| {
        let args = ["rl", "train", "dqn", "--env", environment, "--steps", steps, "--config", text(&config)];
        outcome(&[&args[..], &["--checkpoint-dir", text(&saved), "--checkpoint-every", "100"]].concat())
    };
    // No checkpoint is due at the end of the run, but its end is saved nevertheless.
    let (code, _, stderr) = run("catch/0", "250");
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let (code, _, stderr) = run("catch/0", "300");
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains(&format!("resumed from {} at step 250", text(&saved))), "{stderr}");
    let (code, _, stderr) = run("catch/1", "300");
    assert_eq!(code, Some(2), "{stderr}");
    for expected in
        [text(&saved), "environment: the checkpoint has catch/0, this run has catch/1", "--checkpoint-dir"]
    {
        assert!(stderr.contains(expected), "{stderr}");
    }
}

#[test]
fn a_run_begins_with_the_learner_of_an_earlier_run() {
    let (config, saved) = (small(), folder());
    let train = |agent: &str, environment: &str, folder: [&str; 2]| {
        let args = ["rl", "train", agent, "--env", environment, "--steps", "250"];
        let config = if agent == "dqn" { &["--config", text(&config)][..] } else { &[] };
        outcome(&[&args[..], config, &folder[..]].concat())
    };
    let (code, _, stderr) = train("dqn", "catch/0", ["--checkpoint-dir", text(&saved)]);
    assert_eq!(code, Some(0), "{stderr}");
    let (code, stdout, stderr) = train("dqn", "catch/7", ["--warm-start", text(&saved)]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    let (code, _, stderr) = train("ppo", "catch/0", ["--warm-start", text(&saved)]);
    assert_eq!(code, Some(2), "{stderr}");
    let expected =
        format!("--warm-start: {} has a different run: agent: the checkpoint has dqn", text(&saved));
    assert!(stderr.contains(&expected), "{stderr}");
}

#[test]
fn agents_are_listed_with_their_settings() {
    let listed = succeeds(&["rl", "agents"]);
    for name in ["dqn", "ppo", "r2d2", "impala", "mcts"] {
        assert!(listed.lines().any(|line| line.starts_with(name)), "{name}: {listed}");
    }
    let all: Value = serde_json::from_str(&succeeds(&["rl", "agents", "--json"])).unwrap();
    let r2d2 = all.as_array().unwrap().iter().find(|agent| agent["name"] == "r2d2").unwrap();
    assert_eq!((&r2d2["actions"], &r2d2["paper"]), (&"discrete".into(), &"Kapturowski et al. 2019".into()));
    let settings = succeeds(&["rl", "agents", "dqfd", "--env", "deep_sea/0"]);
    assert!(
        settings.contains("demonstrations.ratio = 0.5") && settings.contains("epsilon = 0.02"),
        "{settings}"
    );
    let (code, _, stderr) = outcome(&["rl", "agents", "nobody"]);
    assert!(code == Some(2) && stderr.contains("nobody"), "{stderr}");
}

#[test]
fn missing_output_folders_of_a_run_are_created() {
    let runs = folder();
    let (log, policy, figures) = (runs.join("log"), runs.join("policy"), runs.join("log/figures"));
    let train = ["rl", "train", "ppo", "--env", "catch/0", "--steps", "10", "--log-dir", text(&log)];
    succeeds(&[&train[..], &["--policy", text(&policy), "--json", text(&figures)]].concat());
    assert!(policy.exists() && figures.exists());
}

#[test]
fn a_run_without_a_complete_episode_is_reported() {
    let figures = file(".json", "");
    let train = ["rl", "train", "ppo", "--env", "MountainCar-v0", "--steps", "9", "--set", "num_steps=1"];
    let output = succeeds(&[&train[..], &["--json", text(&figures)]].concat());
    assert!(output.starts_with("MountainCar-v0: no episode is complete; "), "{output}");
    assert_eq!(json(&figures)["mean_return_last_100"], Value::Null);
}

#[test]
fn a_checkpoint_of_another_agent_is_reported_despite_different_tables() {
    let (config, saved) = (small(), folder());
    let checkpoints = ["--env", "catch/0", "--steps", "100", "--checkpoint-dir", text(&saved)];
    succeeds(&[&["rl", "train", "dqn", "--config", text(&config)], &checkpoints[..]].concat());
    let (code, _, stderr) = outcome(&[&["rl", "train", "ppo"], &checkpoints[..]].concat());
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("a different run: agent: the checkpoint has dqn, this run has ppo"), "{stderr}");
    let data = shown();
    let resumed = ["--env", "deep_sea/0", "--steps", "100", "--checkpoint-dir", text(&data)];
    let (code, _, stderr) = outcome(&[&["rl", "train", "ppo"], &resumed[..]].concat());
    assert!(
        code == Some(2) && stderr.contains("has the tables episodes, but it must be a new folder"),
        "{stderr}"
    );
}

#[test]
fn the_log_of_a_finished_run_is_not_overwritten() {
    let (log, saved, other) = (folder(), folder(), folder());
    let train = [
        "rl",
        "train",
        "ppo",
        "--env",
        "catch/0",
        "--steps",
        "50",
        "--set",
        "num_steps=5",
        "--log-dir",
        text(&log),
    ];
    succeeds(&[&train[..], &["--checkpoint-dir", text(&saved)]].concat());
    let describe = || lines(&log.join("actor.jsonl")).len();
    let before = describe();
    // The same command with another checkpoint folder is another run, which starts from the beginning.
    let (code, _, stderr) = outcome(&[&train[..], &["--checkpoint-dir", text(&other)]].concat());
    assert!(
        code == Some(2) && stderr.contains("--log-dir: ") && stderr.contains(" already has a run; "),
        "{stderr}"
    );
    assert_eq!(describe(), before);
}
