//! SIGINT, SIGTERM and SIGHUP: the first one ends a server or a run in an orderly way, a second SIGINT or SIGTERM ends it
//! immediately.

use std::future::pending;
use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

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
        let hangup = (!ignores_hangup()).then(|| signal(SignalKind::hangup())).transpose()?;
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup,
        })
    }

    /// Ends the process at the first signal. Without this, a process that is the first one in a container would not
    /// receive the signals, because such a process receives only the signals that it catches.
    pub(crate) async fn exit_on_signal(mut self) {
        let first = self.next().await;
        tracing::warn!(signal = first.name, "stopped before the server was ready");
        std::process::exit(first.exit_code);
    }

    /// Returns at the first signal; from then on, a second one ends the process.
    pub(crate) async fn first(mut self) {
        let name = self.next().await.name;
        tracing::info!(signal = name, "stopping; send the signal again to exit at once");
        tokio::spawn(async move {
            let second = self.next().await;
            tracing::warn!(signal = second.name, "stopped at once");
            std::process::exit(second.exit_code);
        });
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

/// Makes the first signal call `stop`, which ends `what`, on a separate thread; the second signal ends the process.
pub(crate) fn stop_in_order(what: &'static str, stop: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let signals = runtime.block_on(async { Signals::catch() })?;
    std::thread::Builder::new()
        .name("relive-signals".to_owned())
        .spawn(move || runtime.block_on(signals.stop(what, stop)))
        .map(drop)
}

/// A signal, and the exit code that shells use for it.
struct Caught {
    name: &'static str,
    exit_code: i32,
}
