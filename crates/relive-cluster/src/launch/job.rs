//! What is to run.

use std::time::Duration;

use super::error::{LaunchError, Result};

/// The variable in which each process finds the token of its job. Relive's clients show what they find there.
pub(super) const TOKEN_VARIABLE: &str = "RELIVE_TOKEN";

/// Most processes of a task: those of the largest published runs are some thousand.
pub(super) const MAX_MEMBERS: u32 = 65_536;

/// Longest name of a job or a task: with a number behind them they are names of hosts, which have 63 characters at
/// most.
const MAX_NAME: usize = 24;

/// Some tasks that belong together. The job ends with its first task.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// What it is called: lowercase letters, digits and `-`, 24 at most.
    pub name: String,
    /// What runs, at least one.
    pub tasks: Vec<Task>,
    /// Variables of each process, beside those of whatever starts it.
    pub environment: Vec<(String, String)>,
    /// What processes show to one another, in the variable `RELIVE_TOKEN`. It is never part of a command line, which
    /// everybody on a machine can read.
    pub token: Option<String>,
    /// What follows when a process ends.
    pub restart: Restart,
}

/// A program that runs a number of times.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// What it is called, as a job is.
    pub name: String,
    /// How many processes it has, at least one; they are numbered from 0 on.
    pub count: u32,
    /// The program and its arguments.
    pub command: Vec<Word>,
    /// What each process needs.
    pub resources: Resources,
}

/// A part of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// The same for each process.
    Text(String),
    /// The number of the process within its task.
    Number,
    /// The host of the first process of a task, and what follows it, such as `:7000`.
    HostOf(String, String),
}

/// What each process of a task needs. Launchers that have nothing to place processes by do not look at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resources {
    /// Processors.
    pub cpus: u32,
    /// GPUs.
    pub gpus: u32,
    /// Memory, if it is to be reserved.
    pub memory_bytes: Option<u64>,
}

/// What follows when a process ends that was not stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restart {
    /// How often a process may fail within [`within`](Self::within) and is started again. The next time it is given up.
    pub most: u32,
    /// The time in which failures are counted; Kubernetes counts them for as long as the job lasts.
    pub within: Duration,
    /// A process that ends with success has seen the end of what it works for. If the job goes on for so long after,
    /// the process is started again; if this is none, it never is. Only [`Processes`](super::Processes) does so.
    pub after_success: Option<Duration>,
}

impl Task {
    /// A task of one process.
    pub fn one<W: Into<Word>>(name: impl Into<String>, command: impl IntoIterator<Item = W>) -> Task {
        let command = command.into_iter().map(Into::into).collect();
        Task { name: name.into(), count: 1, command, resources: Resources::default() }
    }

    /// The same task with so many processes.
    #[must_use]
    pub fn times(self, count: u32) -> Task {
        Task { count, ..self }
    }
}

impl From<&str> for Word {
    fn from(text: &str) -> Word {
        Word::Text(text.to_owned())
    }
}

impl From<String> for Word {
    fn from(text: String) -> Word {
        Word::Text(text)
    }
}

impl Default for Resources {
    /// One processor.
    fn default() -> Resources {
        Resources { cpus: 1, gpus: 0, memory_bytes: None }
    }
}

impl Default for Restart {
    /// Five failures within a minute.
    fn default() -> Restart {
        Restart { most: 5, within: Duration::from_mins(1), after_success: None }
    }
}

impl Job {
    /// A job without variables of its own.
    pub fn new(name: impl Into<String>, tasks: impl IntoIterator<Item = Task>) -> Job {
        Job {
            name: name.into(),
            tasks: tasks.into_iter().collect(),
            environment: Vec::new(),
            token: None,
            restart: Restart::default(),
        }
    }

    /// The task of a name.
    pub(super) fn task(&self, name: &str) -> Option<&Task> {
        self.tasks.iter().find(|task| task.name == name)
    }

    /// All variables of its processes that are no secret.
    pub(super) fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.environment.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// # Errors
    /// Something of it no launcher can start.
    pub(super) fn validate(&self) -> Result<()> {
        expect_name("the name of the job", &self.name)?;
        if self.tasks.is_empty() {
            return Err(LaunchError::job("the number of tasks", 0, "at least 1"));
        }
        for (name, _) in &self.environment {
            expect_variable(name)?;
        }
        self.tasks.iter().try_for_each(|task| self.expect_task(task))
    }

    fn expect_task(&self, task: &Task) -> Result<()> {
        let Task { name, count, command, resources } = task;
        expect_name("the name of a task", name)?;
        if self.tasks.iter().filter(|other| other.name == *name).count() > 1 {
            return Err(LaunchError::job("the name of two tasks", format_args!("{name:?}"), "different"));
        }
        expect_count(name, *count)?;
        if resources.cpus == 0 {
            return Err(LaunchError::job(format_args!("processors of {name}"), 0, "at least 1"));
        }
        match command.first() {
            Some(Word::Text(program)) if !program.is_empty() => {}
            first => {
                let what = format_args!("the first word of {name}'s command");
                return Err(LaunchError::job(what, format_args!("{first:?}"), "the name of a program"));
            }
        }
        command.iter().try_for_each(|word| self.expect_word(name, word))
    }

    fn expect_word(&self, task: &str, word: &Word) -> Result<()> {
        match word {
            Word::Text(text) if text.contains('\0') => {
                let what = format_args!("a word of {task}'s command");
                Err(LaunchError::job(what, format_args!("{text:?}"), "without a zero byte"))
            }
            Word::HostOf(other, _) if self.task(other).is_none() => {
                let what = format_args!("the task whose host {task}'s command names");
                Err(LaunchError::job(what, format_args!("{other:?}"), "one of the job's"))
            }
            Word::Text(_) | Word::Number | Word::HostOf(..) => Ok(()),
        }
    }
}

pub(super) fn expect_count(task: &str, count: u32) -> Result<()> {
    if (1..=MAX_MEMBERS).contains(&count) {
        return Ok(());
    }
    Err(LaunchError::job(format_args!("the number of processes of {task}"), count, "from 1 to 65536"))
}

fn expect_name(what: &str, name: &str) -> Result<()> {
    let is_fit = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
    if begins && name.len() <= MAX_NAME && name.bytes().all(is_fit) && !name.ends_with('-') {
        return Ok(());
    }
    let expected = "24 lowercase letters, digits and dashes at most, with a letter at the beginning and no dash at the end";
    Err(LaunchError::job(what, format_args!("{name:?}"), expected))
}

fn expect_variable(name: &str) -> Result<()> {
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let begins = name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
    if begins && name.bytes().all(is_fit) {
        return Ok(());
    }
    let expected = "letters, digits and _, and no digit at the beginning";
    Err(LaunchError::job("the name of a variable", format_args!("{name:?}"), expected))
}
