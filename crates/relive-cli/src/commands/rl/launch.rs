//! `relive rl launch`: writes the files that start a run on several machines.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::Ipv6Addr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::{Args, Parser, ValueEnum};
use relive_cluster::launch::{
    File, Job, Kubernetes, Launcher, Manual, Resources, Slurm, Task, Word, Written,
};

use super::train;
use crate::commands::token;
use crate::failure::{Failure, Result, usage_reason};
use crate::output;
use crate::units::parse_bytes;

/// How long workers wait for the run, which a cluster may start after the workers.
const PATIENCE: &str = "600";

/// Options of `relive rl launch`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// What starts the processes
    #[arg(value_enum, value_name = "ENGINE")]
    engine: Engine,
    /// Workers, each in its own process
    #[arg(long, value_name = "K", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=64))]
    actors: u8,
    /// Name of the job and of its files: lowercase letters, digits and dashes
    #[arg(long, value_name = "NAME", default_value = "run")]
    name: String,
    /// Folder for the files
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Address of the learner's machine, at which workers reach it; required for `manual`
    #[arg(long, value_name = "HOST", required_if_eq("engine", "manual"))]
    host: Option<String>,
    /// Port of the run's tables on that machine
    #[arg(long, value_name = "PORT", default_value_t = 7000, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Container image with the program relive; required for `kubernetes`
    #[arg(long, value_name = "IMAGE", required_if_eq("engine", "kubernetes"))]
    image: Option<String>,
    #[command(flatten)]
    needs: ResourceOptions,
    /// The agent and the options of `relive rl train`, except those that place its workers
    #[arg(last = true, required = true, value_name = "TRAIN")]
    train: Vec<OsString>,
}

/// The command that is launched, without its own name.
#[derive(Debug, Parser)]
struct TrainLine {
    #[command(flatten)]
    train: train::Options,
}

/// The resources of the processes.
#[derive(Debug, Args)]
struct ResourceOptions {
    /// Processors of the learner process
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    learner_cpus: u32,
    /// Processors of each worker
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    actor_cpus: u32,
    /// Memory of each process, such as 4GiB [default: the engine's]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    memory: Option<u64>,
}

/// What starts processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Engine {
    /// You, in a terminal on each machine
    Manual,
    /// Slurm, from a script
    Slurm,
    /// Kubernetes, from manifests
    Kubernetes,
}

/// Writes the files, and prints how to use them.
pub(crate) fn run(options: &Options) -> Result {
    options.expect_train()?;
    let written = options.launcher().write(&options.job()?).map_err(Failure::usage)?;
    print_instructions(&written, &options.out)
}

impl Options {
    /// # Errors
    /// Fails if `relive rl train` would reject its options, agent or environment, or if the options determine where its
    /// workers run.
    fn expect_train(&self) -> Result {
        let parsed = self.parsed_with(&[])?;
        if !parsed.train.leaves_executor_open() {
            return Err(Failure::usage(
                "after --, give the agent and options of `relive rl train` except --on, --actors, --listen, \
                 --server, --learners and --no-spawn, which `relive rl launch` sets itself, and those for \
                 tokens and TLS: each job gets its own token, and its workers do not use TLS",
            ));
        }
        parsed.train.checked_agent()?;
        let actors = self.actors.to_string();
        self.parsed_with(&["--on", "processes", "--no-spawn", "--actors", &actors])?.train.expect_together()
    }

    /// Parses the options of `relive rl train`, followed by others.
    fn parsed_with(&self, others: &[&str]) -> Result<TrainLine> {
        let others = others.iter().map(OsString::from);
        let given = self.train.iter().cloned().chain(others);
        let line = std::iter::once(OsString::from("relive rl train")).chain(given);
        TrainLine::try_parse_from(line).map_err(|error| {
            Failure::usage(format!("after --: {}; see `relive rl train --help`", usage_reason(&error)))
        })
    }

    fn launcher(&self) -> Box<dyn Launcher> {
        match self.engine {
            Engine::Manual => Box::new(Manual),
            Engine::Slurm => Box::new(Slurm),
            Engine::Kubernetes => Box::new(Kubernetes { image: self.image.clone().unwrap_or_default() }),
        }
    }

    /// Returns the learning process and its workers.
    fn job(&self) -> Result<Job> {
        let given = self.train.iter().map(|word| match word.to_str() {
            Some(word) => Ok(Word::from(word)),
            None => Err(Failure::usage(format!("{} is not UTF-8", word.display()))),
        });
        let given = given.collect::<Result<Vec<Word>>>()?;
        let (actors, port) = (self.actors.to_string(), self.port);
        let listen = format!("0.0.0.0:{port}");
        let learner = ["--on", "processes", "--no-spawn", "--actors", &actors, "--listen", &listen];
        let learner = words(["relive", "rl", "train"]).chain(given).chain(words(learner));
        let join = match &self.host {
            // An IPv6 address itself contains colons, so it needs brackets.
            Some(host) if host.parse::<Ipv6Addr>().is_ok() => Word::Text(format!("[{host}]:{port}")),
            Some(host) => Word::Text(format!("{host}:{port}")),
            None => Word::HostOf("learner".to_owned(), format!(":{port}")),
        };
        let worker = words(["relive", "rl", "worker", "--timeout", PATIENCE, "--join"]);
        let worker = worker.chain([join, Word::from("--number"), Word::Number]);
        let needs = |cpus| Resources { cpus, memory_bytes: self.needs.memory, ..Resources::default() };
        let learner = Task { resources: needs(self.needs.learner_cpus), ..Task::one("learner", learner) };
        let worker = Task { resources: needs(self.needs.actor_cpus), ..Task::one("worker", worker) };
        let tasks = [learner, worker.times(u32::from(self.actors))];
        Ok(Job { token: Some(token::random()?), ..Job::new(self.name.clone(), tasks) })
    }
}

fn words<const N: usize>(words: [&str; N]) -> impl Iterator<Item = Word> {
    words.map(Word::from).into_iter()
}

/// Writes the files, and prints how to start, inspect and end the job.
fn print_instructions(written: &Written, folder: &Path) -> Result {
    // Checked first, so that no file is written unless all can be.
    let exists = |file: &&File| fs::symlink_metadata(folder.join(&file.name)).is_ok();
    if let Some(file) = written.files.iter().find(exists) {
        return Err(cannot_write(file, folder, &io::ErrorKind::AlreadyExists.into()));
    }
    for file in &written.files {
        write(file, folder)?;
    }
    if !written.files.is_empty() {
        let names: Vec<&str> = written.files.iter().map(|file| &*file.name).collect();
        output::print_error(&format!(
            "wrote to {}, where you must run the commands: {}",
            folder.display(),
            names.join(", ")
        ));
    }
    written.start.iter().try_for_each(|command| output::line(command))?;
    let others = [("watch", &written.watch), ("stop", &written.stop), ("resize", &written.resize)];
    for (what, command) in others {
        if let Some(command) = command {
            output::print_error(&format!("{what}: {command}"));
        }
    }
    Ok(())
}

/// Does not overwrite the files of an earlier job, which may be running.
fn write(file: &File, folder: &Path) -> Result {
    let refused = |error: io::Error| cannot_write(file, folder, &error);
    fs::create_dir_all(folder).map_err(refused)?;
    let mode = if file.is_secret { 0o600 } else { 0o644 };
    let path = folder.join(&file.name);
    let mut out = OpenOptions::new().write(true).create_new(true).mode(mode).open(path).map_err(refused)?;
    out.write_all(file.content.as_bytes()).map_err(refused)
}

fn cannot_write(file: &File, folder: &Path, error: &io::Error) -> Failure {
    let reason = match error.kind() {
        io::ErrorKind::AlreadyExists => "it already exists; give another --name or --out".to_owned(),
        _ => error.to_string(),
    };
    Failure::usage(format!("{}: {reason}", folder.join(&file.name).display()))
}
