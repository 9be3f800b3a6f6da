//! The description of a job.

use std::fmt;
use std::time::Duration;

use super::error::{LaunchError, Result};

/// The environment variable that contains the token of the job. Relive's clients present this token.
pub(super) const TOKEN_VARIABLE: &str = "RELIVE_TOKEN";

/// The maximum number of processes of a task. The largest published runs have a few thousand.
pub(super) const MAX_MEMBERS: u32 = 65_536;

/// The maximum length of the name of a job or a task. With a number appended, the name is a host name, which has at
/// most 63 characters.
const MAX_NAME: usize = 24;

/// A group of tasks. The job ends when its first task ends.
#[derive(Clone, PartialEq)]
pub struct Job {
    /// The name: at most 24 lowercase letters, digits and `-`.
    pub name: String,
    /// The tasks, at least one.
    pub tasks: Vec<Task>,
    /// Environment variables of each process, in addition to those of the launching process.
    pub environment: Vec<(String, String)>,
    /// The token that processes present to each other, in the variable `RELIVE_TOKEN`. It is never part of a
    /// command line, which every user of a machine can read.
    pub token: Option<String>,
    /// When to restart processes.
    pub restart: Restart,
}

/// Keeps the token and the values of variables, which may be secrets, too, out of logs.
impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Job");
        shown.field("name", &self.name).field("tasks", &self.tasks);
        shown
            .field("has_token", &self.token.is_some())
            .field("restart", &self.restart)
            .finish_non_exhaustive()
    }
}

/// A program that runs in a number of processes.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// The name, with the same rules as a job's name.
    pub name: String,
    /// The number of processes, at least one, numbered from 0.
    pub count: u32,
    /// The program and its arguments.
    pub command: Vec<Word>,
    /// The resources of each process.
    pub resources: Resources,
}

/// A part of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// A part that is the same for each process.
    Text(String),
    /// The number of the process in its task.
    Number,
    /// The host of a task's first process, followed by a suffix such as `:7000`.
    HostOf(String, String),
}

/// The resources of each process of a task. Launchers that do not schedule processes ignore them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resources {
    /// Processors.
    pub cpus: u32,
    /// GPUs.
    pub gpus: u32,
    /// The memory to reserve, if any.
    pub memory_bytes: Option<u64>,
}

/// When to restart a process that ends without being stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restart {
    /// The maximum number of failures during [`within`](Self::within) after which the process is still restarted. After
    /// a further failure, the launcher gives up.
    pub most: u32,
    /// The time window in which failures are counted. Kubernetes counts them over the whole job.
    pub within: Duration,
    /// How long after its successful end a process is restarted, if the job is still running. `None`: never, because
    /// its work is finished. Only [`Processes`](super::Processes) supports this.
    pub after_success: Option<Duration>,
}

impl Task {
    /// Creates a task with one process.
    pub fn one<W: Into<Word>>(name: impl Into<String>, command: impl IntoIterator<Item = W>) -> Task {
        let command = command.into_iter().map(Into::into).collect();
        Task { name: name.into(), count: 1, command, resources: Resources::default() }
    }

    /// Returns the same task with the given number of processes.
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
    /// Five failures per minute.
    fn default() -> Restart {
        Restart { most: 5, within: Duration::from_mins(1), after_success: None }
    }
}

impl Job {
    /// Creates a job without additional environment variables.
    pub fn new(name: impl Into<String>, tasks: impl IntoIterator<Item = Task>) -> Job {
        Job {
            name: name.into(),
            tasks: tasks.into_iter().collect(),
            environment: Vec::new(),
            token: None,
            restart: Restart::default(),
        }
    }

    /// Returns the task with the given name.
    pub(super) fn task(&self, name: &str) -> Option<&Task> {
        self.tasks.iter().find(|task| task.name == name)
    }

    /// Returns all environment variables of the job's processes, except secrets.
    pub(super) fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.environment.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// # Errors
    /// A part of the job is invalid for all launchers.
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
            return Err(LaunchError::job(
                "the name of more than one task",
                format_args!("{name:?}"),
                "different",
            ));
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
                let what = format_args!("an argument of {task}'s command");
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
    let expected =
        "at most 24 lowercase letters, digits and dashes, starting with a letter and not ending with a dash";
    Err(LaunchError::job(what, format_args!("{name:?}"), expected))
}

fn expect_variable(name: &str) -> Result<()> {
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let begins = name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
    if begins && name.bytes().all(is_fit) {
        return Ok(());
    }
    let expected = "letters, digits and _, not starting with a digit";
    Err(LaunchError::job("the name of a variable", format_args!("{name:?}"), expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_never_printed() {
        let environment = vec![("KEY".to_owned(), "secret of the user".to_owned())];
        let job = Job { token: Some("secret".into()), environment, ..Job::new("a", [Task::one("b", ["c"])]) };
        let shown = format!("{job:?}");
        assert!(shown.contains("has_token: true") && !shown.contains("secret"), "{shown}");
    }
}
