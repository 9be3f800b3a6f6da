//! Scripts for Slurm.

use std::fmt::Write as _;

use super::error::Result;
use super::job::{Job, TOKEN_VARIABLE, Task, Word};
use super::launcher::{File, Launcher, Written};
use super::shell::{assignments, command_line};

/// Writes a script for `sbatch`: a heterogeneous job with one component per task. The job ends when its first task
/// ends.
///
/// Slurm allocates the machines of a job only once. For more processes, submit another job.
#[derive(Debug, Clone, Copy, Default)]
pub struct Slurm;

/// Repeats a command while it fails, unless it fails too often: `$1` is the number of permitted failures within `$2`
/// seconds.
const AGAIN: &str = r#"again() {
  local most=$1 within=$2 ends=0 since=$SECONDS
  shift 2
  until "$@"; do
    if ((SECONDS - since > within)); then ends=0 since=$SECONDS; fi
    if ((++ends > most)); then return 1; fi
  done
}
"#;

impl Launcher for Slurm {
    fn write(&self, job: &Job) -> Result<Written> {
        job.validate()?;
        let name = &job.name;
        let mut files = vec![File { name: format!("{name}.sbatch"), content: script(job), is_secret: false }];
        files.extend(job.token.as_ref().map(|token| File {
            name: token_file(job),
            content: format!("{token}\n"),
            is_secret: true,
        }));
        Ok(Written {
            files,
            start: vec![format!("sbatch {name}.sbatch")],
            watch: Some(format!("squeue --me --name={name} --steps")),
            stop: Some(format!("scancel --me --name={name}")),
            resize: None,
        })
    }
}

fn token_file(job: &Job) -> String {
    format!("{}.token", job.name)
}

fn script(job: &Job) -> String {
    let mut script = String::from("#!/bin/bash\n");
    let mut say = |line: std::fmt::Arguments<'_>| {
        // Writing to a string cannot fail.
        let _ = writeln!(script, "{line}");
    };
    say(format_args!("#SBATCH --job-name={}", job.name));
    say(format_args!("#SBATCH --output={}-%j.log", job.name));
    for (number, task) in job.tasks.iter().enumerate() {
        if number > 0 {
            say(format_args!("#SBATCH hetjob"));
        }
        options(task).iter().for_each(|option| say(format_args!("#SBATCH {option}")));
    }
    say(format_args!("set -eu"));
    assignments(job).iter().for_each(|assignment| say(format_args!("export {assignment}")));
    if job.token.is_some() {
        say(format_args!(
            "{TOKEN_VARIABLE}=$(cat \"${{SLURM_SUBMIT_DIR:-.}}/{}\")\nexport {TOKEN_VARIABLE}",
            token_file(job)
        ));
    }
    for (number, task) in job.tasks.iter().enumerate() {
        if is_named(job, &task.name) {
            let nodes = if job.tasks.len() > 1 { format!("_HET_GROUP_{number}") } else { String::new() };
            let host = host(&task.name);
            say(format_args!(
                "{host}=$(scontrol show hostnames \"$SLURM_JOB_NODELIST{nodes}\" | head -n 1)\nexport {host}"
            ));
        }
    }
    say(format_args!("\n# Runs a command again while it fails, unless it fails too often."));
    say(format_args!("{}", AGAIN.trim_end()));
    let (most, within) = (job.restart.most, job.restart.within.as_secs());
    for task in &job.tasks {
        let line = command_line(task, "\"$SLURM_PROCID\"", |task| format!("\"${}\"", host(task)));
        say(format_args!("{}() {{ again {most} {within} {line}; }}", function(&task.name)));
        say(format_args!("export -f {}", function(&task.name)));
    }
    say(format_args!("export -f again\n"));
    for (number, task) in job.tasks.iter().enumerate() {
        let group = if job.tasks.len() > 1 { format!("--het-group={number} ") } else { String::new() };
        // A failed process must not end the others.
        say(format_args!("srun {group}--kill-on-bad-exit=0 bash -c {} &", function(&task.name)));
        if number == 0 {
            say(format_args!("first=$!"));
        }
    }
    say(format_args!("# The job ends with its first task.\nwait \"$first\""));
    script
}

/// Returns the resources of a job component.
fn options(task: &Task) -> Vec<String> {
    let resources = task.resources;
    let mut options = vec![format!("--ntasks={}", task.count), format!("--cpus-per-task={}", resources.cpus)];
    if resources.gpus > 0 {
        options.push(format!("--gpus-per-task={}", resources.gpus));
    }
    if let Some(bytes) = resources.memory_bytes {
        let mebibytes = bytes.div_ceil(1 << 20).div_ceil(u64::from(resources.cpus));
        options.push(format!("--mem-per-cpu={mebibytes}M"));
    }
    options
}

/// Returns whether a command contains the host of a task.
fn is_named(job: &Job, task: &str) -> bool {
    let mut words = job.tasks.iter().flat_map(|task| &task.command);
    words.any(|word| matches!(word, Word::HostOf(other, _) if other == task))
}

/// Returns the variable that contains a task's host.
fn host(task: &str) -> String {
    format!("host_of_{}", task.replace('-', "_"))
}

/// Returns the shell function of a task.
fn function(task: &str) -> String {
    format!("task_{}", task.replace('-', "_"))
}
