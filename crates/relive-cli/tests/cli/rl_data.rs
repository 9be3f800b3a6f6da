//! Tests recorded episodes, and agents that learn from them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::rl::{folder, json, small, succeeds, text};
use crate::support::{command, file, outcome, signal};

/// Returns a folder with three episodes of deep_sea's demonstrator.
pub(crate) fn shown() -> PathBuf {
    let data = folder();
    let record = ["rl", "record", "--env", "deep_sea/0", "--out", text(&data), "--episodes", "3"];
    succeeds(&[&record[..], &["--policy", "demonstrator"]].concat());
    data
}

#[test]
fn offline_learning_curves_are_plotted_by_learner_steps() {
    let (data, log, curve) = (shown(), folder(), file(".svg", ""));
    let bc = ["rl", "train", "bc", "--env", "deep_sea/0", "--data", text(&data), "--learner-steps", "60"];
    let evaluate = ["--evaluate-every", "20", "--evaluate-episodes", "2"];
    let output = succeeds(&[&bc[..], &evaluate, &["--log-dir", text(&log), "--plot", text(&curve)]].concat());
    assert!(output.starts_with("deep_sea/0: 60 learner steps on data;"), "{output}");
    assert!(!output.contains("episodes") && !output.contains("insert"), "it had none: {output}");
    let across = |path: &Path| std::fs::read_to_string(path).unwrap();
    let again = folder().with_extension("svg");
    for more in [&[][..], &["--of", "evaluator"]] {
        succeeds(&[&["rl", "plot", text(&log), "--out", text(&again)], more].concat());
        for drawn in [across(&curve), across(&again)] {
            assert!(
                drawn.contains("steps of the learner") && drawn.contains("without exploration"),
                "{drawn}"
            );
        }
        // The curve is not a single point: its line extends from left to right.
        let line = across(&again);
        let points = line
            .split("points=\"")
            .filter_map(|rest| rest.split('"').next())
            .max_by_key(|points| points.len());
        let places = points.unwrap().split_whitespace().filter_map(|point| point.split(',').next());
        assert!(places.collect::<std::collections::BTreeSet<_>>().len() > 100, "{line}");
    }
    let (code, _, stderr) = outcome(&["rl", "plot", text(&log), "--of", "actor", "--out", text(&again)]);
    assert!(code == Some(1) && stderr.contains("or it learns from data; --of evaluator"), "{stderr}");
}

#[test]
fn agents_that_need_data_are_refused_with_advice() {
    for actors in ["0", "2"] {
        let (code, _, stderr) = outcome(&["rl", "train", "bc", "--env", "catch/0", "--actors", actors]);
        assert!(code == Some(2), "{stderr}");
        assert!(
            stderr.contains("bc: this agent learns only from recorded episodes; give --data PATH"),
            "{stderr}"
        );
    }
    let out = folder();
    let record = ["rl", "record", "--env", "CartPole-v1", "--policy", "demonstrator", "--out", text(&out)];
    let (code, _, stderr) = outcome(&record);
    assert!(code == Some(2), "{stderr}");
    let expected =
        "--policy demonstrator: CartPole-v1 has no demonstrator; use random, or the file of a trained policy";
    assert!(stderr.contains(expected), "{stderr}");
    let (code, _, stderr) = outcome(&["rl", "record", "--env", "catch/0", "--out", "/proc/shown"]);
    assert!(code == Some(2) && stderr.contains("--out /proc/shown"), "{stderr}");
}

/// Returns the processor time of a process, in hundredths of a second.
fn processor_ticks(process: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name may contain spaces; user and system time are the 12th and 13th fields after it.
    let numbers = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    numbers.skip(11).take(2).filter_map(|number| number.parse::<u64>().ok()).sum()
}

/// Records episodes for at least this much processor time, until these signals end the recording; `env` starts it with
/// an option. Returns its messages.
fn recorded_until(option: &str, (ticks, signals): (u64, &[&str]), out: &Path) -> String {
    let record = ["rl", "record", "--env", "CartPole-v1", "--episodes", "1000000000", "--out", text(out)];
    let mut started = Command::new("env");
    started.arg(option).arg(command(&[]).get_program()).args(record);
    let child = started.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Signals are caught once the folder exists, and an episode takes a millisecond.
    while !out.is_dir() || processor_ticks(child.id()) < ticks {
        std::thread::yield_now();
    }
    signals.iter().for_each(|name| signal(&child, name));
    let output = child.wait_with_output().unwrap();
    let (stdout, stderr) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(stdout.contains(" episodes, "), "{stdout}{stderr}");
    stderr
}

#[test]
fn a_closed_terminal_ends_a_recording_in_an_orderly_way() {
    // A terminal may send the signal more than once.
    let stderr = recorded_until("--default-signal=HUP", (3, &["HUP", "HUP"]), &folder());
    assert!(stderr.contains("SIGHUP"), "{stderr}");
    let stderr = recorded_until("--ignore-signal=HUP", (3, &["HUP", "TERM"]), &folder());
    assert!(!stderr.contains("SIGHUP") && stderr.contains("SIGTERM"), "as with nohup: {stderr}");
}

#[test]
fn a_recording_ended_by_a_signal_keeps_the_complete_episodes() {
    let out = folder();
    let stderr = recorded_until("--default-signal=TERM", (30, &["TERM"]), &out);
    assert!(stderr.contains("SIGTERM"), "{stderr}");
    let bc = ["rl", "train", "bc", "--env", "CartPole-v1", "--data", text(&out), "--learner-steps", "5"];
    succeeds(&bc);
}

#[test]
fn recorded_episodes_are_shown_and_used_for_learning() {
    let data = folder();
    let record = ["rl", "record", "--env", "deep_sea/0", "--out", text(&data), "--episodes", "3"];
    let output = succeeds(&[&record[..], &["--policy", "demonstrator"]].concat());
    assert!(output.starts_with("3 episodes, 30 steps, mean return 0.99"), "{output}");
    let (code, _, stderr) = outcome(&record);
    assert!(code == Some(2) && stderr.contains("not empty"), "{stderr}");

    let noisy = folder();
    let output = succeeds(
        &[
            &record[..4],
            &["--out", text(&noisy), "--episodes", "20", "--policy", "demonstrator", "--noise", "0.3"],
        ]
        .concat(),
    );
    assert!(
        output.starts_with("20 episodes, 200 steps, mean return ") && !output.contains("0.99"),
        "{output}"
    );
    let (code, _, stderr) = outcome(&[&record[..4], &["--out", text(&folder()), "--noise", "-1"]].concat());
    assert!(code == Some(2) && stderr.contains("a number from 0 to 1"), "{stderr}");

    let (config, figures) = (small(), file(".json", ""));
    let train =
        ["rl", "train", "dqn", "--env", "deep_sea/0", "--config", text(&config), "--json", text(&figures)];
    succeeds(
        &[&train[..], &["--data", text(&data), "--learner-steps", "20", "--set", "min_replay_size=1"]]
            .concat(),
    );
    let offline = json(&figures);
    assert_eq!((&offline["env_steps"], &offline["learner_steps"]), (&0.into(), &20.into()));
    let (code, _, stderr) = outcome(&[&train[..], &["--data", text(&data)]].concat());
    assert!(code == Some(2) && stderr.contains("--learner-steps"), "{stderr}");
    for (more, expected) in [
        (&["--data", "/nowhere"][..], "--data: /nowhere: no folder of recorded episodes"),
        (&["--data", text(&data), "--steps", "9"], "'--data <PATH>' cannot be used with '--steps <N>'"),
        (&["--data", text(&data), "--episodes", "9"], "cannot be used with '--episodes <N>'"),
        (&["--data", text(&data), "--actors", "1"], "--data cannot be combined with --actors"),
        (
            &["--data", text(&data), "--log-dir", "nowhere", "--plot", "x.svg"],
            "--plot with --data requires --evaluate-every",
        ),
    ] {
        let (code, _, stderr) = outcome(&[&train[..], &["--learner-steps", "1"], more].concat());
        assert!(code == Some(2) && stderr.contains(expected), "{stderr}");
    }

    let shown = format!("demonstrations.folder={}", text(&data));
    let dqfd = ["rl", "train", "dqfd", "--env", "deep_sea/0", "--steps", "100", "--config", text(&config)];
    succeeds(&[&dqfd[..], &["--set", &shown, "--set", "demonstrations.ratio=0.25"]].concat());
    std::fs::remove_dir_all(data).unwrap();
}

#[test]
fn a_policy_for_another_environment_is_refused() {
    let (policy, out) = (file(".safetensors", ""), folder());
    succeeds(&["rl", "train", "dqn", "--env", "catch/0", "--steps", "10", "--policy", text(&policy)]);
    let record = ["rl", "record", "--env", "CartPole-v1", "--policy", text(&policy), "--out", text(&out)];
    let (code, _, stderr) = outcome(&record);
    assert!(code == Some(2) && !out.exists(), "{stderr}");
    let expected = "the policy takes observations float[10, 5] and returns actions int32[] below 3, but the environment returns float[4]";
    assert!(stderr.contains(expected), "{stderr}");
}
