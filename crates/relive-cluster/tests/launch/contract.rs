//! The suite that every launcher must pass.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use relive_cluster::launch::{
    Job, Kubernetes, Launcher, Manual, Members, Processes, Result, Slurm, Task, Word, Written,
};

use crate::engines;

/// Text that a shell, YAML or the kubelet would change if it were not quoted.
const ODD: &str = "a 'b' \"c\" $HOME $(id) `id` \\ #";

/// The timeout for a job.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns a job with processes that each write a file with their arguments and variables.
fn job(folder: &Path) -> Job {
    let script = format!(
        "printf '%s|%s|%s|%s' \"$1\" \"$2\" \"$ODD\" \"$RELIVE_TOKEN\" > {0}/part.$1.$$ && mv {0}/part.$1.$$ {0}/$1",
        folder.display()
    );
    let command = |name: &str| {
        let words = ["bash", "-c", &script, name].map(Word::from);
        words.into_iter().chain([Word::Number, Word::from(ODD)]).collect::<Vec<_>>()
    };
    let mut job = Job::new("try", [Task::one("workers", command("workers")).times(3)]);
    job.environment = vec![("ODD".to_owned(), ODD.to_owned())];
    job.token = Some("open-sesame".to_owned());
    job
}

/// Starts the job by `start`, which gets the folder of the processes and returns the processes if they are still
/// running. Checks that each process ran once, with its own arguments and variables.
fn assert_keeps(start: impl Fn(&Path, &Job) -> Result<Option<Members>>) {
    let folder = tempfile::tempdir().unwrap();
    let job = job(folder.path());
    let members = start(folder.path(), &job).unwrap();
    let until = Instant::now() + PATIENCE;
    for number in 0..3 {
        let path = folder.path().join(number.to_string());
        let found = loop {
            match std::fs::read_to_string(&path) {
                Ok(found) => break found,
                Err(error) => assert!(Instant::now() < until, "process {number} has left no file: {error}"),
            }
            std::thread::yield_now();
        };
        assert_eq!(found, format!("{number}|{ODD}|{ODD}|open-sesame"));
    }
    if let Some(mut members) = members {
        members.stop(PATIENCE);
    }
    let names = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let numbers: BTreeSet<_> = names.filter(|name| name.to_string_lossy().parse::<u32>().is_ok()).collect();
    assert_eq!(numbers.len(), 3, "{numbers:?}");
    assert_refuses(|job| start(folder.path(), job).map(drop), &job);
}

/// Checks that the launcher rejects invalid jobs with errors that name the invalid part.
fn assert_refuses(start: impl Fn(&Job) -> Result<()>, job: &Job) {
    let refused = |change: &dyn Fn(&mut Job), expected: &str| {
        let mut changed = job.clone();
        change(&mut changed);
        let error = start(&changed).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(expected), "{error:?} says nothing of {expected:?}");
    };
    refused(&|job| job.name = "Try it".to_owned(), "the name of the job is \"Try it\"");
    refused(&|job| job.tasks.clear(), "the number of tasks is 0");
    refused(&|job| job.tasks[0].count = 0, "the number of processes of workers is 0");
    refused(&|job| job.tasks[0].count = 65_537, "from 1 to 65536");
    refused(&|job| job.tasks[0].command.clear(), "the name of a program");
    refused(&|job| job.tasks[0].resources.cpus = 0, "processors of workers is 0");
    refused(&|job| job.tasks.push(job.tasks[0].clone()), "the name of more than one task is \"workers\"");
    refused(&|job| job.environment[0].0 = "1=2".to_owned(), "the name of a variable is \"1=2\"");
    let elsewhere = Word::HostOf("learner".to_owned(), ":7000".to_owned());
    refused(
        &|job| job.tasks[0].command.push(elsewhere.clone()),
        "\"learner\", but it must be one of the job's",
    );
}

/// Checks a launcher, whose written commands `run` executes.
fn assert_writes(launcher: &dyn Launcher, run: impl Fn(&Path, &Written)) {
    assert_keeps(|folder, job| {
        let written = launcher.write(job)?;
        assert!(!written.start.is_empty());
        run(folder, &written);
        Ok(None)
    });
}

#[test]
fn local_processes_meet_the_launch_contract() {
    assert_keeps(|_, job| Processes.run(job).map(Some));
}

#[test]
fn manual_commands_meet_the_launch_contract() {
    assert_writes(&Manual, engines::run_by_hand);
}

#[test]
fn slurm_scripts_meet_the_launch_contract() {
    assert_writes(&Slurm, engines::run_as_slurm);
}

#[test]
fn kubernetes_manifests_meet_the_launch_contract() {
    assert_writes(&Kubernetes { image: "relive:0.1.0".to_owned() }, engines::run_as_kubernetes);
}
