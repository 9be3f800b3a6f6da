//! Workers that `relive rl train` starts on this machine.

use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use relive_rl::run::{Begun, Stop};

use crate::failure::{Failure, Kind, Result};
use crate::security::ClientSecurity;

/// Time between two looks whether a worker has ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A worker that ends more often than this within [`WITHIN`] will not go well the next time, either.
const MOST_ENDS: usize = 5;
const WITHIN: Duration = Duration::from_mins(1);

/// Time for workers to end by themselves when the run is over.
const GRACE: Duration = Duration::from_secs(4);

/// How long the run may go on after a worker has ended with success, before another is started in its place. Longer than a driver waits for the
/// last of them.
const AFTER_SUCCESS: Duration = Duration::from_secs(4);

/// Starts workers, and starts those anew that end before the run does. When it is dropped, they end.
pub(super) struct Supervisor {
    is_over: Arc<AtomicBool>,
    /// Whether the run has failed: then workers get no time to end by themselves, as they would wait for another driver.
    is_left: Arc<AtomicBool>,
    failure: Arc<Mutex<Option<String>>>,
    stop: Stop,
    is_begun: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Supervisor {
    /// Starts `actors` workers of the run on the server at `address`, when the run calls [`begun`](Self::begun).
    pub(super) fn start(actors: usize, address: &str, security: &ClientSecurity) -> Result<Supervisor> {
        let broken = |error: std::io::Error| {
            Failure::text(Kind::Runtime, format!("a worker cannot be started: {error}"))
        };
        let program = std::env::current_exe().map_err(broken)?;
        let mut supervisor = Supervisor {
            is_over: Arc::default(),
            is_left: Arc::default(),
            failure: Arc::default(),
            stop: Stop::new(),
            is_begun: Arc::default(),
            threads: Vec::new(),
        };
        for number in 0..actors {
            let mut command = Command::new(&program);
            command.args([
                "rl",
                "worker",
                "--supervised",
                "--join",
                address,
                "--number",
                &number.to_string(),
            ]);
            // Ctrl-C in a terminal is for this process, which ends the workers when the run is saved.
            command.args(security.arguments()).stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
            let (is_over, failure) = (Arc::clone(&supervisor.is_over), Arc::clone(&supervisor.failure));
            let is_left = Arc::clone(&supervisor.is_left);
            let (is_begun, stop) = (Arc::clone(&supervisor.is_begun), supervisor.stop.clone());
            supervisor.threads.push(std::thread::spawn(move || {
                while !is_begun.load(Ordering::Relaxed) {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    std::thread::park();
                }
                if let Err(text) = watch(number, &mut command, &is_over, &is_left) {
                    failure.lock().get_or_insert(text);
                    stop.stop();
                }
            }));
        }
        Ok(supervisor)
    }

    /// The callback that starts the workers: the run calls it when its plan stands.
    pub(super) fn begun(&self) -> Begun {
        let is_begun = Arc::clone(&self.is_begun);
        let threads: Vec<Thread> = self.threads.iter().map(|thread| thread.thread().clone()).collect();
        Begun::new(move || {
            is_begun.store(true, Ordering::Relaxed);
            threads.iter().for_each(Thread::unpark);
        })
    }

    /// What ends the run early, which is told when a worker cannot go on.
    pub(super) fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Ends the workers, when the run is over or has failed.
    ///
    /// # Errors
    /// Why a worker could not go on.
    pub(super) fn end(mut self, has_failed: bool) -> Result {
        self.is_left.store(has_failed, Ordering::Relaxed);
        self.join();
        let failure = self.failure.lock().take();
        failure.map_or(Ok(()), |text| Err(Failure::text(Kind::Runtime, text)))
    }

    fn join(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.threads.iter().for_each(|thread| thread.thread().unpark());
        for thread in self.threads.drain(..) {
            // A panic was printed, and the child ends with its standard input.
            let _ = thread.join();
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.join();
    }
}

/// A worker's process, which ends when its standard input does: also if this process is killed.
struct Running {
    child: Child,
    input: Option<ChildStdin>,
}

impl Running {
    fn start(command: &mut Command) -> std::io::Result<Running> {
        let mut child = command.spawn()?;
        let input = child.stdin.take();
        Ok(Running { child, input })
    }

    /// Ends it, after it had time to end by itself.
    fn end(mut self, grace: Duration) {
        let until = Instant::now() + grace;
        while Instant::now() < until && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(LOOK_EVERY);
        }
        drop(self.input.take());
        // It is gone already, as a rule.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a worker, and starts it anew whenever it ends before the run does; why it cannot be.
fn watch(
    number: usize,
    command: &mut Command,
    is_over: &AtomicBool,
    is_left: &AtomicBool,
) -> std::result::Result<(), String> {
    let start = |command: &mut Command| {
        Running::start(command).map_err(|error| format!("worker {number} cannot be started: {error}"))
    };
    let mut running = start(command)?;
    let mut ends: Vec<Instant> = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let ended = running.child.try_wait().map_err(|error| format!("worker {number}: {error}"))?;
        let Some(status) = ended else {
            std::thread::sleep(LOOK_EVERY);
            continue;
        };
        // The run that it has worked for is over, which this process sees when all workers have ended.
        if status.success() {
            wait_for(is_over, AFTER_SUCCESS);
            if !is_over.load(Ordering::Relaxed) {
                running = start(command)?;
            }
            continue;
        }
        ends.retain(|end| end.elapsed() < WITHIN);
        ends.push(Instant::now());
        if ends.len() > MOST_ENDS {
            let seconds = WITHIN.as_secs();
            return Err(format!(
                "worker {number} has ended {} times within {seconds} s, at last by {}; what it says is above",
                ends.len(),
                told(status)
            ));
        }
        tracing::warn!("worker {number} has ended by {}: starting it anew", told(status));
        running = start(command)?;
    }
    running.end(if is_left.load(Ordering::Relaxed) { Duration::ZERO } else { GRACE });
    Ok(())
}

/// Waits until that is so, but no longer than `patience`.
fn wait_for(is_so: &AtomicBool, patience: Duration) {
    let until = Instant::now() + patience;
    while !is_so.load(Ordering::Relaxed) && Instant::now() < until {
        std::thread::sleep(LOOK_EVERY);
    }
}

fn told(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (_, Some(signal)) => format!("signal {signal}"),
        (Some(code), None) => format!("exit code {code}"),
        (None, None) => status.to_string(),
    }
}
