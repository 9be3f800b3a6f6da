//! Jobs that run on this machine: their processes, and the reported events.

use std::time::Duration;

use relive_cluster::launch::{Ended, Event, EventKind, Job, Members, Next, Processes, Restart, Task};

const PATIENCE: Duration = Duration::from_secs(60);

fn job(script: &str, count: u32) -> Job {
    Job::new("try", [Task::one("worker", ["bash", "-c", script]).times(count)])
}

fn next(members: &mut Members) -> Event {
    members.watch(PATIENCE).expect("something happens in time")
}

/// Returns the process id of the next process that is started.
fn started(members: &mut Members) -> u32 {
    match next(members).what {
        EventKind::Started(process) => process,
        EventKind::Ended(..) => panic!("one has ended"),
    }
}

fn is_there(process: u32) -> bool {
    std::path::Path::new(&format!("/proc/{process}")).exists()
}

#[test]
fn a_killed_process_is_restarted() {
    let mut members = Processes.run(&job("read", 1)).unwrap();
    let first = started(&mut members);
    let killed = std::process::Command::new("kill").args(["-KILL", &first.to_string()]).status().unwrap();
    assert!(killed.success());
    assert_eq!(next(&mut members).what, EventKind::Ended(Ended::Signal(9), Next::StartsAgain));
    let second = started(&mut members);
    members.stop(Duration::ZERO);
    assert!(!is_there(first) && !is_there(second));
    assert_eq!(next(&mut members).what, EventKind::Ended(Ended::Signal(9), Next::Stays));
}

#[test]
fn a_process_that_fails_too_often_is_not_restarted() {
    let mut job = job("exit 3", 1);
    job.restart = Restart { most: 2, ..Restart::default() };
    let mut members = Processes.run(&job).unwrap();
    let next = [Next::StartsAgain, Next::StartsAgain, Next::GivenUp { times: 3 }];
    for next_one in next {
        started(&mut members);
        assert_eq!(self::next(&mut members).what, EventKind::Ended(Ended::Code(3), next_one));
    }
    members.stop(PATIENCE);
    assert_eq!(members.watch(Duration::ZERO), None);
}

#[test]
fn a_successful_process_is_restarted_if_the_job_continues() {
    let mut job = job("exit 0", 1);
    job.restart.after_success = Some(Duration::ZERO);
    let mut members = Processes.run(&job).unwrap();
    for _ in 0..2 {
        started(&mut members);
        assert_eq!(next(&mut members).what, EventKind::Ended(Ended::Success, Next::Stays));
    }
}

#[test]
fn a_missing_program_is_reported() {
    let mut job = Job::new("try", [Task::one("worker", ["/no/such/program"])]);
    job.restart.most = 0;
    let mut members = Processes.run(&job).unwrap();
    let EventKind::Ended(Ended::NotStarted(text), Next::GivenUp { times: 1 }) = next(&mut members).what
    else {
        panic!("it was started");
    };
    assert!(text.contains("No such file"), "{text}");
}

#[test]
fn a_task_can_be_resized() {
    let mut members = Processes.run(&job("read", 2)).unwrap();
    let processes = [started(&mut members), started(&mut members)];
    members.resize("worker", 3).unwrap();
    let third = started(&mut members);
    assert_eq!(members.addresses().len(), 3);
    members.resize("worker", 1).unwrap();
    assert!(!is_there(third) && processes.into_iter().filter(|process| is_there(*process)).count() == 1);
    assert_eq!(members.addresses()[0].0.to_string(), "worker 0");
    let error = members.resize("worker", 0).unwrap_err().to_string();
    assert!(error.contains("the number of processes of worker is 0"), "{error}");
    let error = members.resize("learner", 2).unwrap_err().to_string();
    assert!(error.contains("the task is \"learner\""), "{error}");
}

#[test]
fn child_processes_of_a_member_end_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let child = folder.path().join("child");
    let script = format!("sleep 1000 & echo $! > {0}.part; mv {0}.part {0}; read", child.display());
    let mut members = Processes.run(&job(&script, 1)).unwrap();
    let left = loop {
        match std::fs::read_to_string(&child) {
            Ok(left) => break left.trim().parse::<u32>().unwrap(),
            Err(_) => std::thread::yield_now(),
        }
    };
    members.stop(Duration::ZERO);
    let is_running = || {
        let state = std::fs::read_to_string(format!("/proc/{left}/stat")).unwrap_or_default();
        !state.is_empty() && !state.contains(") Z ")
    };
    while is_running() {
        std::thread::yield_now();
    }
}
