//! Keeps one process running: starts it, waits for it to end, and restarts it.

use std::collections::VecDeque;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::events::{Ended, Event, EventKind, Member, Next};
use super::job::Restart;

/// A thread that starts a process, waits for it to end, and restarts it.
pub(super) struct Supervisor {
    shared: Arc<Supervised>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Supervised {
    state: Mutex<SupervisedState>,
    changed: Condvar,
}

#[derive(Default)]
struct SupervisedState {
    /// The process, until its exit status is read from the system. Its process id is valid until then.
    running: Option<Pid>,
    /// The standard input of the process. It stays open until the process is killed, because a process may end at once
    /// when it closes, and closes if this program is killed.
    input: Option<ChildStdin>,
    is_stopped: bool,
    has_ended: bool,
}

impl Supervisor {
    /// Starts the first process.
    ///
    /// # Errors
    /// No thread can be started.
    pub(super) fn start(
        member: Member,
        command: Command,
        restart: Restart,
        events: Sender<Event>,
    ) -> io::Result<Supervisor> {
        let shared = Arc::new(Supervised::default());
        let supervising = SupervisorThread { member, command, restart, events, shared: Arc::clone(&shared) };
        let thread = Builder::new().name("relive-launch".to_owned()).spawn(move || supervising.run())?;
        Ok(Supervisor { shared, thread: Some(thread) })
    }

    /// Prevents restarts.
    pub(super) fn stop(&self) {
        self.shared.state.lock().is_stopped = true;
        self.shared.changed.notify_all();
    }

    /// Waits for the process to end, and kills it at `kill_at`.
    pub(super) fn end(&mut self, kill_at: Instant) {
        self.stop();
        let mut state = self.shared.state.lock();
        while !state.has_ended && !self.shared.changed.wait_until(&mut state, kill_at).timed_out() {}
        state.input = None;
        if let Some(process) = state.running {
            kill(process);
        }
        drop(state);
        if let Some(thread) = self.thread.take() {
            // The panic has already been printed, and the closed input has ended the process.
            let _ = thread.join();
        }
    }
}

/// Kills a process and its children.
fn kill(process: Pid) {
    // The process may have ended just now, which is not an error.
    let _ = kill_process_group(process, Signal::KILL);
}

/// The state of the supervising thread.
struct SupervisorThread {
    member: Member,
    command: Command,
    restart: Restart,
    events: Sender<Event>,
    shared: Arc<Supervised>,
}

impl SupervisorThread {
    fn run(mut self) {
        let mut failures = VecDeque::new();
        loop {
            let ended = match self.start() {
                None => break,
                Some(Ok(child)) => self.wait(child),
                Some(Err(error)) => Ended::NotStarted(error.to_string()),
            };
            if !self.follows(ended, &mut failures) {
                break;
            }
        }
        self.shared.state.lock().has_ended = true;
        self.shared.changed.notify_all();
    }

    /// Starts a process unless the supervisor was stopped.
    fn start(&mut self) -> Option<io::Result<Child>> {
        let mut state = self.shared.state.lock();
        if state.is_stopped {
            return None;
        }
        let started = self.command.stdin(Stdio::piped()).process_group(0).spawn();
        Some(started.map(|mut child| {
            let process = Pid::from_child(&child);
            (state.running, state.input) = (Some(process), child.stdin.take());
            drop(state);
            self.report(EventKind::Started(child.id()));
            child
        }))
    }

    /// Waits for the process to end. The process id remains valid until the exit status is read, so no other process
    /// can be killed instead.
    fn wait(&self, mut child: Child) -> Ended {
        let process = Pid::from_child(&child);
        while let Err(error) = waitid(WaitId::Pid(process), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            if error != rustix::io::Errno::INTR {
                break;
            }
        }
        let mut state = self.shared.state.lock();
        (state.running, state.input) = (None, None);
        drop(state);
        // Kills the remaining children of the process.
        kill(process);
        match child.wait() {
            Ok(status) => Ended::of(status),
            Err(error) => Ended::NotStarted(error.to_string()),
        }
    }

    /// Reports how the process has ended. Returns whether to restart the process.
    fn follows(&self, ended: Ended, failures: &mut VecDeque<Instant>) -> bool {
        if self.shared.state.lock().is_stopped {
            self.report(EventKind::Ended(ended, Next::Stays));
            return false;
        }
        if ended == Ended::Success {
            self.report(EventKind::Ended(ended, Next::Stays));
            return self.restart.after_success.is_some_and(|timeout| self.keeps_running_for(timeout));
        }
        let Restart { most, within, .. } = self.restart;
        failures.push_back(Instant::now());
        failures.retain(|failure| failure.elapsed() < within);
        let times = u32::try_from(failures.len()).unwrap_or(u32::MAX);
        let next = if times > most { Next::GivenUp { times } } else { Next::StartsAgain };
        self.report(EventKind::Ended(ended, next));
        next == Next::StartsAgain
    }

    /// Waits. Returns false if the supervisor was stopped in the meantime.
    fn keeps_running_for(&self, timeout: Duration) -> bool {
        let mut state = self.shared.state.lock();
        self.shared.changed.wait_while_for(&mut state, |state| !state.is_stopped, timeout);
        !state.is_stopped
    }

    fn report(&self, what: EventKind) {
        // There is no receiver if the job has been dropped.
        let _ = self.events.send(Event { member: self.member.clone(), what });
    }
}
