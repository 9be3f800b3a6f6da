//! Processes on this machine.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use super::error::{LaunchError, Result};
use super::events::{Event, Member};
use super::job::{Job, TOKEN_VARIABLE, Task, Word, expect_count};
use super::supervisor::Supervisor;

/// The host of all processes.
const HOST: &str = "127.0.0.1";

/// Starts processes on this machine, and restarts those that fail.
///
/// The standard input of a process closes just before the process is killed, and also when this program is killed; during
/// the grace of [`stop`](Members::stop), it stays open. Each process leads its own process group, so that Ctrl-C in a
/// terminal reaches only this program, and killing a process also kills its children.
#[derive(Debug, Clone, Copy, Default)]
pub struct Processes;

impl Processes {
    /// Starts a job. Each process of each task gets its command line, with its number in place of [`Word::Number`], the
    /// job's environment variables, and its token.
    ///
    /// # Errors
    /// A part of the job is invalid, or a thread cannot be started. In that case, no process runs.
    pub fn run(self, job: &Job) -> Result<Members> {
        job.validate()?;
        let (event_sender, events) = channel();
        let mut members = Members { job: job.clone(), event_sender, events, places: BTreeMap::new() };
        for task in &job.tasks {
            members.resize(&task.name, task.count)?;
        }
        Ok(members)
    }
}

/// The processes of a running job. Dropping this value stops the processes.
pub struct Members {
    job: Job,
    event_sender: Sender<Event>,
    events: Receiver<Event>,
    /// The supervisors, by task name and number.
    places: BTreeMap<(Arc<str>, u32), Supervisor>,
}

impl Members {
    /// Returns the host of each process.
    pub fn addresses(&self) -> Vec<(Member, String)> {
        let members = self.places.keys().map(|(task, number)| Self::member(task, *number));
        members.map(|member| (member, HOST.to_owned())).collect()
    }

    /// Returns the next event, or `None` if none arrives in time. Events of one process keep their order.
    pub fn watch(&mut self, timeout: Duration) -> Option<Event> {
        self.events.recv_timeout(timeout).ok()
    }

    /// Stops all processes, and kills those that do not end by themselves within `grace`. Returns when all processes
    /// have ended; [`watch`](Self::watch) reports their ends.
    pub fn stop(&mut self, grace: Duration) {
        self.places.values().for_each(Supervisor::stop);
        let kill_at = Instant::now() + grace;
        self.places.values_mut().for_each(|place| place.end(kill_at));
        self.places.clear();
    }

    /// Changes the number of processes in a task: starts missing processes, or kills the processes with the highest
    /// numbers.
    ///
    /// # Errors
    /// There is no such task, or the number is out of range.
    pub fn resize(&mut self, task: &str, count: u32) -> Result<()> {
        let Some(at) = self.job.tasks.iter().position(|known| known.name == task) else {
            return Err(LaunchError::job("the task", format_args!("{task:?}"), "one of the job's"));
        };
        expect_count(task, count)?;
        self.job.tasks[at].count = count;
        let name: Arc<str> = task.into();
        let (first, end) = ((Arc::clone(&name), count), (Arc::clone(&name), u32::MAX));
        let surplus: Vec<_> = self.places.range(first..=end).map(|(key, _)| key.clone()).collect();
        let mut surplus: Vec<Supervisor> = surplus.iter().filter_map(|key| self.places.remove(key)).collect();
        surplus.iter_mut().for_each(|place| place.end(Instant::now()));
        for number in 0..count {
            if !self.places.contains_key(&(Arc::clone(&name), number)) {
                let place = self.place(&name, number)?;
                self.places.insert((Arc::clone(&name), number), place);
            }
        }
        Ok(())
    }

    fn member(task: &Arc<str>, number: u32) -> Member {
        Member { task: Arc::clone(task), number }
    }

    fn place(&self, task: &Arc<str>, number: u32) -> Result<Supervisor> {
        let member = Self::member(task, number);
        let command = self.job.task(task).map(|task| self.command(task, number));
        let missing = || LaunchError::job("the task", format_args!("{task:?}"), "one of the job's");
        let (command, member_name) = (command.ok_or_else(missing)?, member.clone());
        Supervisor::start(member, command, self.job.restart, self.event_sender.clone())
            .map_err(|error| LaunchError::start(member_name, error))
    }

    fn command(&self, task: &Task, number: u32) -> Command {
        let mut words = task.command.iter().map(|word| match word {
            Word::Text(text) => text.clone(),
            Word::Number => number.to_string(),
            Word::HostOf(_, after) => format!("{HOST}{after}"),
        });
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).envs(self.job.variables()).stdout(Stdio::null());
        if let Some(token) = &self.job.token {
            command.env(TOKEN_VARIABLE, token);
        }
        command
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
    }
}
