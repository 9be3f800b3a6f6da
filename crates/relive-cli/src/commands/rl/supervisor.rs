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

/// Starts workers, and starts those anew that end before the run does. When it is dropped, they end.
pub(super) struct Supervisor {
    is_over: Arc<AtomicBool>,
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
        let (is_over, failure, is_begun) = (Arc::default(), Arc::default(), Arc::default());
        let mut supervisor =
            Supervisor { is_over, failure, stop: Stop::new(), is_begun, threads: Vec::new() };
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
            let (is_begun, stop) = (Arc::clone(&supervisor.is_begun), supervisor.stop.clone());
            supervisor.threads.push(std::thread::spawn(move || {
                while !is_begun.load(Ordering::Relaxed) {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    std::thread::park();
                }
                if let Err(text) = watch(number, &mut command, &is_over) {
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

    /// Ends the workers, when the run is over.
    ///
    /// # Errors
    /// Why a worker could not go on.
    pub(super) fn end(mut self) -> Result {
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
    fn end(mut self) {
        let until = Instant::now() + GRACE;
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
fn watch(number: usize, command: &mut Command, is_over: &AtomicBool) -> std::result::Result<(), String> {
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
        // The run that it has worked for is over, which this process will see in a moment.
        if status.success() {
            std::thread::sleep(LOOK_EVERY);
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
    running.end();
    Ok(())
}

fn told(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (_, Some(signal)) => format!("signal {signal}"),
        (Some(code), None) => format!("exit code {code}"),
        (None, None) => status.to_string(),
    }
}
