//! SIGINT and SIGTERM: the first one ends a server or a run in an orderly way, the second one ends it immediately.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Both signals, which are caught as soon as this value exists.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(crate) fn catch() -> io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
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
        tokio::select! {
            _ = self.interrupt.recv() => Caught { name: "SIGINT", exit_code: 130 },
            _ = self.terminate.recv() => Caught { name: "SIGTERM", exit_code: 143 },
        }
    }
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
