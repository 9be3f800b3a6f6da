//! Tests sweeps over agents, tasks and seeds, and their reports.

use std::path::Path;
use std::process::Stdio;
use std::time::SystemTime;

use crate::rl::{folder, json, small, succeeds, text};
use crate::rl_data::shown;
use crate::support::{command, outcome, signal};

fn changed(path: &Path) -> SystemTime {
    std::fs::metadata(path).unwrap().modified().unwrap()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn a_suite_of_several_agents_produces_one_report() {
    let out = folder();
    let set = ["--set", "hidden=[8]", "--set", "batch_size=4", "--set", "min_replay_size=8"];
    let sweep = ["rl", "sweep", "dqn,r2d2", "--suite", "bsuite", "--scale", "0.002", "--out", text(&out)];
    let output = succeeds(&[&sweep[..], &set].concat());
    assert_eq!(output.lines().count(), 2 * 20 + 1, "{output}");
    let report = out.join("report");
    assert!(output.contains(&format!("report: {}", text(&report.join("report.html")))), "{output}");
    let about = json(&out.join("r2d2-catch_0-1/run.json"));
    assert_eq!((&about["episodes"], &about["env_steps"]), (&20.into(), &180.into()));

    let page = read(&report.join("report.html"));
    assert_eq!(page.matches("<svg").count(), 21, "a radar, and the curves of each task");
    for part in ["dqn, r2d2 in 20 environments", "umbrella_length/9", "exploration"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("http") || !page.contains("src="), "it needs no other files");
    let table = read(&report.join("scores.csv"));
    assert_eq!(table.lines().count(), 41);
    for line in table.lines().skip(1) {
        let score: f64 = line.split(',').nth(3).unwrap().parse().unwrap();
        assert!((0.0..=1.0).contains(&score), "{line}");
    }
    let page = read(&report.join("r2d2.md"));
    assert!(page.starts_with("# `r2d2`\n\nQ-learning with a memory (Kapturowski et al. 2019)."), "{page}");
    assert_eq!(page.matches("\n## ").count(), 20, "{page}");
    assert!(page.contains("| catch/0 | 180 | 1 |") && page.contains("](curves-catch_0.svg)"), "{page}");
    assert!(page.contains("    relive rl train r2d2 --env catch/0 --steps 180 --episodes 20\n"), "{page}");
    assert!(page.contains("`hidden = [8]`") && !page.contains("`discount ="), "only what is set: {page}");
    assert!(report.join("radar.svg").is_file() && report.join("curves-deep_sea_0.svg").is_file());
}

#[test]
fn sweeps_support_agents_that_need_resets_or_demonstrations() {
    let out = folder();
    let sweep = ["rl", "sweep", "dqfd,mcts", "--env", "deep_sea/0", "--seeds", "1", "--steps", "1200"];
    succeeds(&[&sweep[..], &["--set", "min_replay_size=10", "--out", text(&out)]].concat());
    // The log contains neither the steps of a search nor demonstrations. Of 120 episodes, 24 are logged, including the
    // last one.
    for agent in ["dqfd", "mcts"] {
        let log = read(&out.join(format!("{agent}-deep_sea_0-1/bsuite_id_-_deep_sea-0.csv")));
        let episodes: Vec<&str> = log.lines().skip(1).filter_map(|line| line.split(',').nth(1)).collect();
        assert_eq!((episodes.len(), episodes.last()), (24, Some(&"120")), "{log}");
        assert!(!log.lines().nth(1).unwrap().contains(",0.0,"), "the first episode finds nothing: {log}");
    }
}

#[test]
fn a_sweep_resumes_after_the_finished_runs() {
    let (config, out) = (small(), folder());
    let sweep = [
        "rl",
        "sweep",
        "dqn,dqn",
        "--env",
        "catch/0,CartPole-v1,catch/0",
        "--seeds",
        "2",
        "--config",
        text(&config),
    ];
    let sweep = [&sweep[..], &["--out", text(&out), "--steps"]].concat();
    succeeds(&[&sweep[..], &["200"]].concat());
    let runs = ["dqn-catch_0-1", "dqn-catch_0-2", "dqn-CartPole-v1-1"].map(|name| out.join(name));
    let [kept, killed, removed] = &runs;
    let logs = runs.each_ref().map(|run| changed(&run.join("actor.jsonl")));
    // This is the state of the folder of a run that was killed.
    std::fs::write(killed.join("run.json"), r#"{"agent":"dqn","environment":"catch/0","seed":2,"actors":0}"#)
        .unwrap();
    std::fs::write(killed.join("actor.jsonl"), "{\"env_steps\"").unwrap();
    std::fs::remove_dir_all(removed).unwrap();

    let output = succeeds(&[&sweep[..], &["200"]].concat());
    assert_eq!(output.matches("(finished before)").count(), 2, "{output}");
    assert_eq!(changed(&kept.join("actor.jsonl")), logs[0]);
    assert_eq!(read(&killed.join("actor.jsonl")).lines().count(), 22, "it begins anew");
    assert_eq!(json(&removed.join("run.json"))["env_steps"], 200);
    // The score of CartPole-v1 is relative to the returns of a random policy and of an expert.
    let table = read(&out.join("report/scores.csv"));
    let score = table.lines().find(|line| line.starts_with("dqn,CartPole-v1,1,")).unwrap();
    assert!(score.split(',').nth(3).unwrap().parse::<f64>().is_ok_and(|score| score < 0.5), "{score}");

    let (code, _, stderr) = outcome(&[&sweep[..], &["300"]].concat());
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("another run (") && stderr.contains("--steps"), "{stderr}");
    let other = ["200", "--set", "n_step=2"];
    let (code, _, stderr) = outcome(&[&sweep[..], &other].concat());
    assert!(code == Some(2) && stderr.contains("n_step = 2"), "{stderr}");
}

#[test]
fn a_run_without_episodes_is_not_in_the_report() {
    let out = folder();
    let (settings, lengths) = (["--set", "hidden=[8]"], ["--seeds", "1", "--steps", "30"]);
    let sweep = ["rl", "sweep", "dqn", "--env", "MountainCar-v0,catch/0", "--out", text(&out)];
    let output = succeeds(&[&sweep[..], &settings, &lengths].concat());
    assert!(output.contains("dqn in MountainCar-v0, seed 1: no episode is complete"), "{output}");
    assert!(output.contains("report.html of 1 of 2 runs"), "{output}");
    // A second call reads the figures of the finished runs.
    let output = succeeds(&[&sweep[..], &settings, &lengths].concat());
    assert!(output.contains("report.html of 1 of 2 runs"), "{output}");
    assert_eq!(read(&out.join("report/scores.csv")).lines().count(), 2, "the head and catch/0");
}

#[test]
fn invalid_sweeps_are_reported_before_any_run() {
    let out = folder();
    for (args, expected) in [
        (&["dqn,nobody", "--suite", "bsuite"][..], "nobody"),
        (&["dqn", "--suite", "atari"], "continuous"),
        (&["dqn"], "--env"),
        (&["dqn", "--suite", "bsuite", "--env", "catch/0"], "cannot be used with"),
        (&["dqn", "--env", "catch/0", "--scale", "0.5"], "cannot be used with"),
        (&["dqn", "--suite", "bsuite", "--scale", "0"], "above 0"),
        (
            &["dqn", "--suite", "continuous"],
            "dqn in Pendulum-v1, seed 1: this agent takes one discrete action",
        ),
        (&["dqn,ppo", "--env", "catch/0", "--set", "epochs=3"], "dqn in catch/0: --set epochs=3: "),
        (&["dqn,dqfd", "--env", "deep_sea/0,CartPole-v1"], "dqfd in CartPole-v1, seed 1: "),
        (
            &["dqn,bc", "--env", "catch/0"],
            "bc: this agent learns only from recorded episodes; give --data PATH",
        ),
        (
            &["bc", "--env", "catch/0", "--data", "/nowhere", "--learner-steps", "9"],
            "--data requires --evaluate-every",
        ),
        (
            &[
                "bc",
                "--env",
                "catch/0",
                "--data",
                "/nowhere",
                "--learner-steps",
                "9",
                "--evaluate-every",
                "3",
            ],
            "bc in catch/0, seed 1: --data: /nowhere: no folder of recorded episodes",
        ),
        (
            &["impala", "--env", "catch/0", "--steps", "10", "--set", "batch_size=90"],
            "impala in catch/0, seed 1: the number of steps of a batch is 900, but it must be at most the steps of the run, 10",
        ),
        (&["impala", "--env", "catch/0", "--out", "/proc/runs"], "--out /proc/runs"),
    ] {
        let (code, _, stderr) = {
            let to = if args.contains(&"--out") { &[][..] } else { &["--out", text(&out)] };
            outcome(&[&["rl", "sweep"], args, to].concat())
        };
        assert_eq!(code, Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(expected), "{args:?}: {stderr}");
    }
    assert!(!out.exists());
}

#[test]
fn agents_that_learn_from_data_are_swept() {
    let (data, out) = (shown(), folder());
    let sweep = ["rl", "sweep", "bc,bcq", "--env", "deep_sea/0", "--seeds", "2", "--out", text(&out)];
    let lengths = ["--learner-steps", "60", "--evaluate-every", "20", "--evaluate-episodes", "2"];
    let output = succeeds(&[&sweep[..], &["--data", text(&data)], &lengths].concat());
    assert_eq!(output.lines().count(), 5, "four runs and the report: {output}");
    assert!(output.contains("bc in deep_sea/0, seed 2: 60 learner steps on data"), "{output}");
    let report = out.join("report");
    let page = read(&report.join("bc.md"));
    assert!(
        page.contains("| Environment | Learner steps |") && page.contains("| deep_sea/0 | 60 | 2 | – | "),
        "{page}"
    );
    let command = format!(
        "    relive rl train bc --env deep_sea/0 --data {} --learner-steps 60 --evaluate-every 20",
        text(&data)
    );
    assert!(page.contains(&command), "{page}");
    let of_data =
        "The agent learned from 3 recorded episodes with 30 steps in total. Their mean return is 0.99.";
    assert!(page.contains(of_data) && page.contains("(curves-from-data-deep_sea_0.svg)"), "{page}");
    let curves = read(&report.join("curves-from-data-deep_sea_0.svg"));
    assert!(curves.contains("steps of the learner") && !report.join("radar.svg").exists(), "{curves}");
    let table = read(&report.join("scores.csv"));
    assert!(table.lines().nth(1).is_some_and(|line| line.starts_with("bc,deep_sea/0,1,,,")), "{table}");
}

#[test]
fn a_sweep_locks_its_folder_and_stops_gracefully() {
    let (config, out) = (small(), folder());
    let sweep =
        ["rl", "sweep", "dqn", "--env", "catch/0,bandit/0", "--seeds", "1", "--config", text(&config)];
    let endless = [&sweep[..], &["--out", text(&out), "--steps", "1000000000000"]].concat();
    let child = command(&endless).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while !out.join("dqn-catch_0-1/actor.jsonl").is_file() {
        std::thread::yield_now();
    }
    let (code, _, stderr) = outcome(&endless);
    assert_eq!(code, Some(2), "{stderr}");
    let expected = format!("--out: another sweep is using {} (process {})", text(&out), child.id());
    assert!(stderr.contains(&expected), "{stderr}");
    signal(&child, "TERM");
    let output = child.wait_with_output().unwrap();
    let [expected, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert_eq!(
        (output.status.code(), expected.as_str()),
        (Some(0), "no report: none of the 2 runs is finished and has a complete episode\n")
    );
    assert!(stderr.contains("the same command resumes with the unfinished runs"), "{stderr}");
    // The interrupted runs are unfinished, and the folder is unlocked again.
    let shorter =
        [&sweep[..], &["--out", text(&out), "--steps", "1000000000000", "--episodes", "3"]].concat();
    let (code, _, stderr) = outcome(&shorter);
    assert!(code == Some(2) && stderr.contains("another run (") && stderr.contains("--episodes"), "{stderr}");
}
