//! Command lines for starting each process manually.

use super::error::{LaunchError, Result};
use super::job::{Job, TOKEN_VARIABLE, Word};
use super::launcher::{Launcher, Written};
use super::shell::{assignments, command_line, quoted};

/// Returns the command line of each process, including the job's token. A person can run it on any machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct Manual;

impl Launcher for Manual {
    fn write(&self, job: &Job) -> Result<Written> {
        job.validate()?;
        let mut begin = assignments(job);
        begin.extend(job.token.as_ref().map(|token| format!("{TOKEN_VARIABLE}={}", quoted(token))));
        let mut start = Vec::new();
        for task in &job.tasks {
            if let Some(Word::HostOf(..)) = task.command.iter().find(|word| matches!(word, Word::HostOf(..)))
            {
                let what = format_args!("the address in {}'s command", task.name);
                let expected =
                    "given explicitly: with manual starts, the task's machine is not known in advance";
                return Err(LaunchError::job(what, "that of another task", expected));
            }
            for number in 0..task.count {
                let line = command_line(task, &number.to_string(), |_| String::new());
                start.push(begin.iter().chain([&line]).map(String::as_str).collect::<Vec<_>>().join(" "));
            }
        }
        Ok(Written { start, ..Written::default() })
    }
}
