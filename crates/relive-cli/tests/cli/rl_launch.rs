//! Tests the launchers of runs on several machines.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::rl::{folder, text};
use crate::support::{command, free_address, outcome};

const TRAIN: [&str; 6] = ["--", "dqn", "--env", "catch/0", "--steps", "3000"];

/// Starts a command line that is meant for a terminal.
fn in_shell(line: &str) -> Child {
    let program = Path::new(env!("CARGO_BIN_EXE_relive")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("bash");
    shell.args(["-c", line]).env("PATH", path).stdin(Stdio::null());
    shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn succeeded(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn manual_commands_start_a_run_whose_workers_present_its_token() {
    let address = free_address();
    let port = address.rsplit(':').next().unwrap();
    let given = ["rl", "launch", "manual", "--host", "127.0.0.1", "--port", port, "--actors", "2"];
    let (code, stdout, stderr) = outcome(&[&given, &TRAIN[..]].concat());
    assert_eq!((code, &*stderr), (Some(0), ""));
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{stdout}");
    let [learner, workers @ ..] = &*lines else { panic!("{stdout}") };
    assert!(learner.starts_with("RELIVE_TOKEN="), "{learner}");
    let learner = in_shell(learner);
    let stranger = command(&["rl", "worker", "--join", &address, "--number", "0"]).output().unwrap();
    assert_eq!(stranger.status.code(), Some(6), "{}", String::from_utf8_lossy(&stranger.stderr));
    let workers: Vec<Child> = workers.iter().map(|line| in_shell(line)).collect();
    let steps: u64 = workers.into_iter().map(|worker| steps_of(&succeeded(worker))).sum();
    assert!(steps >= 3000, "{steps} steps of both workers");
    succeeded(learner);
}

/// Returns the number of steps in a line such as `worker 0: 12 episodes, 120 steps`.
fn steps_of(output: &str) -> u64 {
    output.trim().trim_end_matches(" steps").rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_script_for_slurm_and_its_token_are_written_once() {
    let out = folder();
    let given = [
        "rl",
        "launch",
        "slurm",
        "--name",
        "catch",
        "--out",
        text(&out),
        "--actors",
        "16",
        "--memory",
        "2GiB",
    ];
    let (code, stdout, stderr) = outcome(&[&given, &TRAIN[..]].concat());
    assert_eq!((code, &*stdout), (Some(0), "sbatch catch.sbatch\n"), "{stderr}");
    for part in ["wrote to ", "catch.sbatch, catch.token", "\nwatch: squeue ", "\nstop: scancel "] {
        assert!(stderr.contains(part), "{part:?} in {stderr}");
    }
    let [script, token] = ["catch.sbatch", "catch.token"].map(|name| out.join(name));
    let checked = Command::new("bash").arg("-n").arg(&script).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let script = fs::read_to_string(script).unwrap();
    for part in [
        "relive rl train dqn --env catch/0 --steps 3000 --on processes --no-spawn --actors 16 --listen 0.0.0.0:7000",
        "relive rl worker --timeout 600 --join \"$host_of_learner\":7000 --number \"$SLURM_PROCID\"",
        "#SBATCH --ntasks=16",
        "2048M",
    ] {
        assert!(script.contains(part), "{part:?} in {script}");
    }
    assert_eq!(fs::metadata(&token).unwrap().permissions().mode() & 0o777, 0o600);
    let secret = fs::read_to_string(&token).unwrap();
    assert!(secret.trim().len() == 64 && !script.contains(secret.trim()));
    let (code, _, stderr) = outcome(&[&given, &TRAIN[..]].concat());
    assert_eq!(code, Some(2));
    assert!(stderr.contains("catch.sbatch: it already exists; give another --name or --out"), "{stderr}");
}

#[test]
fn manifests_for_kubernetes_name_the_image() {
    let out = folder();
    let given = ["rl", "launch", "kubernetes", "--image", "relive:0.1", "--out", text(&out)];
    let (code, stdout, stderr) = outcome(&[&given, &TRAIN[..]].concat());
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("kubectl apply"), "{stdout}");
    let manifest = fs::read_to_string(out.join("run.yaml")).unwrap();
    assert!(manifest.matches("relive:0.1").count() >= 2, "{manifest}");
}

#[test]
fn invalid_launches_are_reported() {
    let slurm = ["rl", "launch", "slurm", "--out", text(&folder())].map(str::to_owned);
    let slurm: Vec<&str> = slurm.iter().map(String::as_str).collect();
    for (given, part) in [
        (vec!["--", "dqn"], "required arguments were not provided: --env"),
        (vec!["--", "dqn", "--env", "catch/0", "--on", "threads"], "except --on, --actors, --listen"),
        (vec!["--", "dqn", "--env", "catch/0", "--stepz", "1"], "--stepz"),
        (vec!["--", "dqn", "--env", "catch/99"], "catch/99"),
        (vec!["--", "dqn", "--env", "Pendulum-v1"], "discrete"),
        (vec!["--", "dqn", "--env", "catch/0", "--set", "epsilon=7"], "epsilon"),
        (vec!["--", "bc", "--env", "CartPole-v1"], "learns only from recorded episodes"),
        (
            vec!["--", "dqn", "--env", "catch/0", "--data", "shown", "--learner-steps", "9"],
            "--data cannot be combined with --actors",
        ),
        (vec!["--", "dqn", "--env", "catch/0", "--token-file", "t"], "and those for tokens and TLS"),
        (vec!["--name", "My Job", "--", "dqn", "--env", "catch/0"], "the name of the job is \"My Job\""),
        (vec!["--actors", "0", "--", "dqn", "--env", "catch/0"], "0 is not in 1..=64"),
    ] {
        let (code, stdout, stderr) = outcome(&[&slurm[..], &given].concat());
        assert_eq!((code, &*stdout), (Some(2), ""), "{given:?}: {stderr}");
        assert!(stderr.contains(part), "{part:?} in {stderr}");
    }
    for (engine, missing) in [("manual", "--host <HOST>"), ("kubernetes", "--image <IMAGE>")] {
        let (code, _, stderr) = outcome(&[&["rl", "launch", engine], &TRAIN[..]].concat());
        assert_eq!(code, Some(2));
        assert!(stderr.contains(missing), "{stderr}");
    }
}
