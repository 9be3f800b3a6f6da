//! Supervises the workers and learners that `relive rl train` starts on this machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use relive_cluster::launch::{
    Ended, Event, EventKind, Job, LaunchError, Next, Processes, Restart, Task, Word,
};
use relive_rl::run::{Begun, Stop};

use crate::failure::{Failure, Kind, Result};
use crate::security::ClientSecurity;

/// The interval at which to check whether the run has ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The time for workers to end by themselves after the run has ended.
pub(super) const GRACE: Duration = Duration::from_secs(4);

/// Like [`GRACE`], but for a run that has its tables in its own process. Workers that have joined the run have
/// confirmed its end; other workers can no longer reach it.
pub(super) const GRACE_WITHOUT_TABLES: Duration = Duration::from_millis(500);

/// How long the run may continue after a worker has ended successfully before another one replaces it. This is longer
/// than a driver waits for the last worker.
pub(super) const AFTER_SUCCESS: Duration = Duration::from_secs(4);

/// The prefix of learners' tasks.
const LEARNER: &str = "learner-";

/// The time for the other learners to notice that one is gone, and to report details. They notice it only once they are
/// connected.
const LEARNERS_REPORT_TIMEOUT: Duration = Duration::from_secs(3);

/// Starts workers and learners, and restarts workers that end before the run does. Ends all of them when it is dropped.
pub(super) struct Supervisor {
    flags: Arc<Flags>,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Flags {
    is_begun: AtomicBool,
    is_over: AtomicBool,
    /// Whether the run has failed. In that case, workers are given no time to end by themselves, because they would
    /// wait for another driver.
    is_left: AtomicBool,
    failure: Mutex<Option<String>>,
}

impl Supervisor {
    /// Starts the processes of a run when the run calls [`begun`](Self::begun). After the run, the processes have
    /// `grace` to end by themselves.
    pub(super) fn start(jobs: std::io::Result<Vec<Job>>, grace: Duration) -> Result<Supervisor> {
        let broken = |error: &dyn std::fmt::Display| {
            Failure::text(Kind::Runtime, format!("a worker cannot be started: {error}"))
        };
        let jobs = jobs.map_err(|error| broken(&error))?;
        let (flags, stop) = (Arc::new(Flags::default()), Stop::new());
        let (shared, stop_handle) = (Arc::clone(&flags), stop.clone());
        let watch = move || {
            if let Err(text) = shared.watch(&jobs, grace) {
                shared.failure.lock().get_or_insert(text);
                stop_handle.stop();
            }
        };
        let thread = std::thread::Builder::new().name("relive-workers".to_owned()).spawn(watch);
        let thread = thread.map_err(|error| broken(&error))?;
        Ok(Supervisor { flags, stop, thread: Some(thread) })
    }

    /// Returns the callback that starts the workers, which the run calls when its plan is ready.
    pub(super) fn begun(&self) -> Begun {
        let flags = Arc::clone(&self.flags);
        let thread = self.thread.as_ref().map(|thread| thread.thread().clone());
        Begun::new(move || {
            flags.is_begun.store(true, Ordering::Relaxed);
            thread.iter().for_each(Thread::unpark);
        })
    }

    /// Ends the run early when a worker cannot continue.
    pub(super) fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Ends the workers after the run has ended or failed.
    ///
    /// # Errors
    /// A worker could not continue; the error states the reason.
    pub(super) fn end(mut self, has_failed: bool) -> Result {
        self.flags.is_left.store(has_failed, Ordering::Relaxed);
        self.join();
        let failure = self.flags.failure.lock().take();
        failure.map_or(Ok(()), |text| Err(Failure::text(Kind::Runtime, text)))
    }

    fn join(&mut self) {
        self.flags.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // If the thread panicked, the panic has already been printed, and the workers end when their standard input
            // closes.
            let _ = thread.join();
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.join();
    }
}

/// Returns the workers of the run on the server at `address`, as processes on this machine.
pub(super) fn job(actors: usize, address: &str, security: &ClientSecurity) -> std::io::Result<Job> {
    let mut command = own_command(&["rl", "worker", "--supervised", "--join", address], security)?;
    command.extend([Word::from("--number"), Word::Number]);
    let task = Task::one("worker", command).times(u32::try_from(actors).unwrap_or(u32::MAX));
    let restart = Restart { after_success: Some(AFTER_SUCCESS), ..Restart::default() };
    Ok(Job { restart, ..Job::new("run", [task]) })
}

/// Returns all of `count` learners except the first, which is this process. They are not restarted, because the other
/// learners cannot continue when one has failed.
pub(super) fn learners(count: u32, address: &str, security: &ClientSecurity) -> std::io::Result<Job> {
    let task = |rank: u32| {
        let words = ["rl", "learner", "--supervised", "--join", address, "--rank", &rank.to_string()];
        Ok(Task::one(format!("{LEARNER}{rank}"), own_command(&words, security)?))
    };
    let tasks = (1..count).map(task).collect::<std::io::Result<Vec<_>>>()?;
    Ok(Job { restart: Restart { most: 0, ..Restart::default() }, ..Job::new("learners", tasks) })
}

/// Returns this program with the given arguments, and the credentials for the tables.
fn own_command(words: &[&str], security: &ClientSecurity) -> std::io::Result<Vec<Word>> {
    let program = std::env::current_exe()?;
    let words = words.iter().map(Into::into);
    let words = std::iter::once(program.into_os_string()).chain(words).chain(security.arguments());
    words.map(|word| text(&word)).collect()
}

pub(super) fn text(word: &std::ffi::OsStr) -> std::io::Result<Word> {
    let refused = || std::io::Error::other(format!("{} is not UTF-8", word.display()));
    word.to_str().map(Word::from).ok_or_else(refused)
}

impl Flags {
    /// Starts the workers when the run has begun, and watches them until it ends. Returns an error with the reason if a
    /// worker cannot continue.
    fn watch(&self, jobs: &[Job], grace: Duration) -> std::result::Result<(), String> {
        while !self.is_begun.load(Ordering::Relaxed) {
            if self.is_over.load(Ordering::Relaxed) {
                return Ok(());
            }
            std::thread::park();
        }
        let started = jobs.iter().map(|job| Ok((Processes.run(job)?, job.restart)));
        let started: std::result::Result<Vec<_>, LaunchError> = started.collect();
        let mut started = started.map_err(|error| error.to_string())?;
        let mut lost: Option<(Instant, String)> = None;
        while !self.is_over.load(Ordering::Relaxed) {
            for (members, restart) in &mut started {
                let Some(event) = members.watch(LOOK_EVERY) else { continue };
                match note(&event, *restart) {
                    Err(text) if event.member.task.starts_with(LEARNER) => {
                        lost.get_or_insert((Instant::now(), text));
                    }
                    noted => noted?,
                }
            }
            if let Some((_, text)) = lost.take_if(|(since, _)| since.elapsed() >= LEARNERS_REPORT_TIMEOUT) {
                return Err(text);
            }
        }
        let grace = if self.is_left.load(Ordering::Relaxed) { Duration::ZERO } else { grace };
        let until = Instant::now() + grace;
        for (members, _) in &mut started {
            members.stop(until.saturating_duration_since(Instant::now()));
        }
        Ok(())
    }
}

/// Returns the message for a worker that is no longer restarted.
pub(super) fn failure_text(times: u32, restart: Restart, ended: &Ended) -> String {
    let seconds = restart.within.as_secs();
    format!("ended {times} times within {seconds} s, the last time with {ended}; its output is above")
}

/// Logs the restart of a worker.
///
/// # Errors
/// The worker is not restarted, because a restart would not help.
fn note(event: &Event, restart: Restart) -> std::result::Result<(), String> {
    let worker = &event.member;
    match &event.what {
        EventKind::Ended(ended, Next::GivenUp { .. }) if restart.most == 0 => {
            Err(format!("{worker} ended with {ended}; its output is above"))
        }
        EventKind::Ended(ended, Next::GivenUp { times }) => {
            Err(format!("{worker} {}", failure_text(*times, restart, ended)))
        }
        EventKind::Ended(ended, Next::StartsAgain) => {
            tracing::warn!("{worker} ended with {ended}: restarting it");
            Ok(())
        }
        EventKind::Ended(_, Next::Stays) | EventKind::Started(_) => Ok(()),
    }
}
