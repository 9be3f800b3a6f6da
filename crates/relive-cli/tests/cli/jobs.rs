//! Tests the observation of running jobs from outside.

use std::path::Path;
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::rl::{folder, text};
use crate::support::{Served, command, file, free_address, outcome};

/// Runs a command on the jobs that are registered in a folder; returns exit code, stdout and stderr.
fn job(jobs: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let output = command(&[&["job"], args].concat())
        .env("XDG_RUNTIME_DIR", jobs)
        .env("XDG_STATE_HOME", jobs)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Returns a run that does not end by itself, registered in a folder.
fn endless(jobs: &Path, more: &[&str]) -> Child {
    let run = ["rl", "train", "ppo", "--env", "CartPole-v1", "--steps", "100000000000"];
    let mut command = command(&[&run, more].concat());
    command
        .env("XDG_RUNTIME_DIR", jobs)
        .env("XDG_STATE_HOME", jobs)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().unwrap()
}

/// Returns a folder for jobs, without any jobs.
fn no_jobs() -> std::path::PathBuf {
    let jobs = folder();
    std::fs::create_dir_all(&jobs).unwrap();
    jobs
}

/// Returns the jobs of a folder, once the first job has `workers` workers.
fn listed(jobs: &Path, workers: u64) -> Vec<Value> {
    loop {
        let (code, stdout, stderr) = job(jobs, &["ls", "--json"]);
        assert_eq!(code, Some(0), "{stderr}");
        let rows: Vec<Value> = serde_json::from_str(&stdout).unwrap();
        if rows.first().is_some_and(|row| row["workers"].as_u64() == Some(workers)) {
            return rows;
        }
    }
}

/// Returns the log of a job, once it contains a text.
fn logged(jobs: &Path, text: &str) -> String {
    loop {
        let (code, stdout, _) = job(jobs, &["logs"]);
        if code == Some(0) && stdout.contains(text) {
            return stdout;
        }
    }
}

#[test]
fn a_job_is_listed_watched_and_stopped_gracefully() {
    let (jobs, saved) = (no_jobs(), folder());
    let (code, stdout, stderr) = job(&jobs, &["ls"]);
    assert!(
        code == Some(0) && stdout.starts_with("name") && stderr.contains("no job is running"),
        "{stdout}{stderr}"
    );
    let checkpoints = ["--checkpoint-dir", text(&saved), "--checkpoint-every", "1000000000000"];
    let on = ["--on", "processes", "--actors", "2", "--name", "walk"];
    let mut driver = endless(&jobs, &[&on[..], &checkpoints].concat());
    let rows = listed(&jobs, 2);
    assert_eq!((rows.len(), &rows[0]["name"], &rows[0]["state"]), (1, &"walk".into(), &"running".into()));
    assert_eq!((&rows[0]["agent"], &rows[0]["environment"]), (&"ppo".into(), &"CartPole-v1".into()));
    // A user on another machine would pass the address.
    let address = rows[0]["address"].as_str().unwrap();
    let (_, stdout, stderr) = outcome(&["job", "ls", "--at", address]);
    assert!(stdout.contains("running") && stdout.contains("CartPole-v1"), "{stdout}{stderr}");
    let (code, stdout, stderr) = job(&jobs, &["top", "walk", "--once"]);
    assert!(code == Some(0) && stdout.contains("rounds of workers"), "{stdout}{stderr}");
    let workers = stdout.lines().skip_while(|line| !line.starts_with("worker ")).skip(1);
    assert_eq!(workers.filter(|line| line.starts_with(['0', '1'])).count(), 2, "{stdout}");
    let actual = logged(&jobs, "worker 1 on ");
    assert!(actual.contains("driver on ") && actual.contains("| to add a node with workers: "), "{actual}");
    assert!(actual.contains("| acting for ppo in CartPole-v1"), "{actual}");
    let following = ["job", "logs", "walk", "--follow"];
    let mut following = command(&following);
    let following = following
        .env("XDG_RUNTIME_DIR", &jobs)
        .env("XDG_STATE_HOME", &jobs)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let following = following.spawn().unwrap();
    // Without a name, the command applies to the only job.
    let (code, stdout, stderr) = job(&jobs, &["stop"]);
    assert_eq!((code, &stdout[..]), (Some(0), "walk has ended\n"), "{stderr}");
    assert!(driver.wait().unwrap().success());
    assert!(std::fs::read_dir(&saved).unwrap().count() > 0, "a checkpoint was written");
    let output = following.wait_with_output().unwrap();
    let (actual, over) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(
        output.status.success() && actual.contains("worker 0 on ") && over.contains("is over"),
        "{actual}{over}"
    );
    assert_eq!(job(&jobs, &["ls", "--json"]).1, "[]\n");
    let (code, _, stderr) = job(&jobs, &["stop", "walk"]);
    assert!(code == Some(2) && stderr.contains("there is no job walk on this machine"), "{stderr}");
}

#[test]
fn a_job_that_exceeds_the_stop_timeout_is_reported_and_can_be_killed() {
    let jobs = no_jobs();
    // The evaluation at the end of this run takes longer than the stop timeout.
    let evaluations = ["--evaluate-every", "1000000000000", "--evaluate-episodes", "100000000"];
    let on = ["--on", "processes", "--actors", "1", "--name", "slow"];
    let mut driver = endless(&jobs, &[&on[..], &evaluations].concat());
    let name = ["--on", "processes", "--actors", "1", "--name", "slow"];
    logged(&jobs, "worker 0 on ");
    assert_eq!(endless(&jobs, &name).wait().unwrap().code(), Some(2), "the name is taken");
    while job(&jobs, &["top", "slow", "--once"]).0 != Some(0) {}
    let (code, _, stderr) = job(&jobs, &["stop", "slow", "--within", "0.05"]);
    assert!(code == Some(4) && stderr.contains("--now kills it"), "{stderr}");
    let (code, stdout, stderr) = job(&jobs, &["stop", "slow", "--now"]);
    assert_eq!((code, &stdout[..]), (Some(0), "slow was killed\n"), "{stderr}");
    assert!(!driver.wait().unwrap().success());
    assert_eq!(job(&jobs, &["ls", "--json"]).1, "[]\n");
}

#[test]
fn a_killed_job_is_reported_once() {
    let jobs = no_jobs();
    let name = |name| ["--on", "processes", "--actors", "1", "--name", name];
    let mut drivers = ["one", "two"].map(|job| endless(&jobs, &name(job)));
    let listed = || job(&jobs, &["ls", "--json"]).1;
    while !(listed().contains("\"one\"") && listed().contains("\"two\"")) {}
    let (code, _, stderr) = job(&jobs, &["top"]);
    assert!(
        code == Some(2) && stderr.contains("this machine has several jobs; name one of them: one, two"),
        "{stderr}"
    );
    for driver in &mut drivers {
        driver.kill().unwrap();
        driver.wait().unwrap();
    }
    let (code, _, stderr) = job(&jobs, &["logs", "one"]);
    assert!(code == Some(1) && stderr.contains("job one is over"), "{stderr}");
    let (_, stdout, _) = job(&jobs, &["ls"]);
    assert!(stdout.contains("two") && stdout.contains("killed") && !stdout.contains("one"), "{stdout}");
    assert_eq!(listed(), "[]\n");
}

#[test]
fn unknown_jobs_are_refused() {
    let jobs = no_jobs();
    let (code, _, stderr) = job(&jobs, &["stop"]);
    assert!(code == Some(2) && stderr.contains("no job is running on this machine"), "{stderr}");
    let nobody = free_address();
    let server = Served::start(".toml", "[[table]]\nname = \"scratch\"\n");
    for what in ["top", "logs", "stop"] {
        let (code, _, stderr) = job(&jobs, &[what, &nobody]);
        assert!(code == Some(3) && stderr.contains("cannot connect"), "{what}: {stderr}");
        let (code, _, stderr) = job(&jobs, &[what, &server.address]);
        assert!(code == Some(1) && stderr.contains("has no run of an agent"), "{what}: {stderr}");
    }
    let (code, _, stderr) = job(&jobs, &["ls", "--at", &server.address]);
    assert!(code == Some(1) && stderr.contains("has no run of an agent"), "{stderr}");
    let (code, _, stderr) =
        outcome(&["rl", "train", "ppo", "--env", "catch/0", "--steps", "10", "--name", "x"]);
    assert!(code == Some(2) && stderr.contains("--name requires --on processes"), "{stderr}");
}

#[test]
fn foreign_files_in_the_job_folder_are_ignored() {
    let jobs = no_jobs();
    let inside = jobs.join("relive/jobs");
    std::fs::create_dir_all(inside.join("folder.json")).unwrap();
    let pipe = std::process::Command::new("mkfifo").arg(inside.join("pipe.json")).status().unwrap();
    assert!(pipe.success());
    std::os::unix::fs::symlink("/dev/zero", inside.join("endless.json")).unwrap();
    let large = std::fs::File::create(inside.join("large.json")).unwrap();
    large.set_len(1 << 40).unwrap();
    for (name, agent) in [("good", "ppo"), ("bad", "\\u001b[2J"), ("../x", "ppo")] {
        let text = format!(
            r#"{{"name":"{name}","agent":"{agent}","environment":"catch/0","address":"127.0.0.1:1","host":"elsewhere","pid":1,"started":0,"boot":"none","since":0}}"#
        );
        std::fs::write(inside.join(format!("{}.json", name.replace('/', "-"))), text).unwrap();
    }
    let (code, stdout, stderr) = job(&jobs, &["ls"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("good") && stdout.lines().count() == 2 && !stdout.contains('\u{1b}'), "{stdout}");
}

#[test]
fn jobs_require_their_token() {
    let (jobs, address) = (no_jobs(), free_address());
    let [token, wrong] =
        ["right-token-of-this-job", "wrong-token-of-this-job"].map(|token| file(".token", token));
    let listen = ["--on", "processes", "--actors", "1", "--listen", &address, "--token-file", text(&token)];
    let mut driver = endless(&jobs, &listen);
    listed(&jobs, 1);
    for what in [&["top", &address][..], &["logs", &address], &["stop", &address], &["ls", "--at", &address]]
    {
        let (code, _, stderr) = job(&jobs, &[what, &["--token-file", text(&wrong)]].concat());
        assert_eq!(code, Some(6), "{what:?}: {stderr}");
    }
    // For a job on this machine, the token is known.
    let (code, stdout, stderr) = job(&jobs, &["top", "--once", "--json"]);
    assert_eq!(code, Some(0), "{stderr}");
    let pid = serde_json::from_str::<Value>(&stdout).unwrap()["driver"]["pid"].as_u64();
    assert_eq!(pid, Some(u64::from(driver.id())));
    let (code, _, stderr) = job(&jobs, &["stop", &address, "--now", "--token-file", text(&token)]);
    assert!(code == Some(2) && stderr.contains("is an address"), "{stderr}");
    let (code, _, stderr) = job(&jobs, &["logs", "--node", "elsewhere"]);
    assert!(
        code == Some(2) && stderr.contains("--node elsewhere: the job has no such node or machine"),
        "{stderr}"
    );
    // From other machines, a job is stopped by its address.
    let (code, stdout, stderr) = job(&jobs, &["stop", &address, "--token-file", text(&token)]);
    assert!(code == Some(0) && stdout.ends_with(" has ended\n"), "{stdout}{stderr}");
    assert!(driver.wait().unwrap().success());
}
