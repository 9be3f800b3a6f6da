//! SIGINT, SIGTERM and SIGHUP: the first one ends a server or a run in an orderly way, a second SIGINT or SIGTERM ends it
//! immediately.

use std::future::pending;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Whether the command decides what a signal does.
static ARE_CAUGHT: AtomicBool = AtomicBool::new(false);

/// The signals, which are caught as soon as this value exists.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// The signal of a closed terminal, until it arrives: a terminal may send several. `None` if the process was started
    /// with `nohup`.
    hangup: Option<Signal>,
}

impl Signals {
    pub(crate) fn catch() -> io::Result<Self> {
        ARE_CAUGHT.store(true, Ordering::Relaxed);
        Self::new()
    }

    fn new() -> io::Result<Self> {
        let hangup = (!ignores_hangup()).then(|| signal(SignalKind::hangup())).transpose()?;
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup,
        })
    }

    /// Ends the process at the first signal.
    pub(crate) async fn exit_on_signal(mut self) {
        let first = self.next().await;
        tracing::warn!(signal = first.name, "stopped before the server was ready");
        std::process::exit(first.exit_code);
    }

    /// Returns at the first signal; from then on, a second one ends the process.
    pub(crate) async fn first(mut self) {
        let name = self.next().await.name;
        // Nothing is logged before the exit: the log may be what blocks the server.
        tokio::spawn(async move { std::process::exit(self.next().await.exit_code) });
        tracing::info!(signal = name, "stopping; send the signal again to exit at once");
    }

    /// Calls `stop` at the first signal, and ends the process at the second.
    async fn stop(mut self, what: &str, stop: impl FnOnce()) {
        let name = self.next().await.name;
        crate::output::print_error(&format!(
            "{name}: ending the {what}; send the signal again to exit at once"
        ));
        stop();
        std::process::exit(self.next().await.exit_code);
    }

    async fn next(&mut self) -> Caught {
        let Self { interrupt, terminate, hangup } = self;
        let hung_up = async {
            match hangup {
                Some(signal) => signal.recv().await,
                None => pending().await,
            }
        };
        tokio::select! {
            _ = interrupt.recv() => Caught { name: "SIGINT", exit_code: 130 },
            _ = terminate.recv() => Caught { name: "SIGTERM", exit_code: 143 },
            _ = hung_up => {
                self.hangup = None;
                Caught { name: "SIGHUP", exit_code: 129 }
            }
        }
    }
}

/// Returns whether the process was started with SIGHUP ignored, as by `nohup`. Bit 0 of the mask is signal 1.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

/// Makes a signal end the process if it is the first one in a container and its command does not
/// [catch](Signals::catch) signals. Such a process receives only the signals that it catches.
pub(crate) fn exit_if_first_process() -> io::Result<()> {
    if std::process::id() != 1 {
        return Ok(());
    }
    on_thread(Signals::new, |mut signals| async move {
        let first = signals.next().await;
        if !ARE_CAUGHT.load(Ordering::Relaxed) {
            std::process::exit(first.exit_code);
        }
    })
}

/// Makes the first signal call `stop`, which ends `what`, on a separate thread; the second signal ends the process.
pub(crate) fn stop_in_order(what: &'static str, stop: impl FnOnce() + Send + 'static) -> io::Result<()> {
    on_thread(Signals::catch, move |signals| signals.stop(what, stop))
}

/// Catches the signals, and waits for them on a separate thread.
fn on_thread<W: Future<Output = ()>>(
    catch: impl FnOnce() -> io::Result<Signals>,
    wait: impl FnOnce(Signals) -> W + Send + 'static,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let signals = runtime.block_on(async { catch() })?;
    std::thread::Builder::new()
        .name("relive-signals".to_owned())
        .spawn(move || runtime.block_on(wait(signals)))
        .map(drop)
}

/// A signal, and the exit code that shells use for it.
struct Caught {
    name: &'static str,
    exit_code: i32,
}
