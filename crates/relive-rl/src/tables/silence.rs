//! Logs the reason why a process of a run is waiting: a silent server or driver.

use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::time::{Duration, Instant};

use relive_client::ServerInfo;
use relive_client::blocking::Client;

use super::lease::{self, DriverHeartbeat};
use crate::limits::LEARNER_SILENCE;
use crate::{Result, threads};

/// The time between two checks.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How long the server may take to answer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The process whose silence is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchTarget {
    /// The driver of the run; used by its workers.
    Driver,
    /// Only the run's server.
    Server,
}

/// Runs `work`, and meanwhile logs the reason for waiting: a server that does not answer, or the driver of the run.
///
/// # Errors
/// No thread can be started.
pub(crate) fn watched<T>(
    client: &Client,
    target: WatchTarget,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let (_until_return, ended) = channel::<()>();
    let client = client.clone();
    // Nobody waits for this thread: a server that is gone would delay the end of the work by the timeout.
    threads::spawn("relive-rl-watch", move || watch(&client, target, &ended))?;
    work()
}

fn watch(client: &Client, target: WatchTarget, ended: &Receiver<()>) {
    let mut watch = SilenceWatch { target, seen: None, since: Instant::now(), logged: None };
    while ended.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
        let result = client.with_timeout(TIMEOUT).server_info();
        if ended.try_recv() == Err(TryRecvError::Disconnected) {
            return;
        }
        watch.note_answer(result.ok().map(|info| watch.heartbeat(&info, client)), Instant::now());
    }
}

/// The process that is silent.
#[derive(Debug, Clone, Copy, PartialEq)]
enum SilentParty {
    Server,
    Driver,
}

struct SilenceWatch {
    target: WatchTarget,
    /// The newest heartbeat of the driver.
    seen: Option<DriverHeartbeat>,
    /// When that heartbeat last changed.
    since: Instant,
    logged: Option<SilentParty>,
}

impl SilenceWatch {
    fn heartbeat(&self, info: &ServerInfo, client: &Client) -> Option<DriverHeartbeat> {
        let has_heartbeat = info.table(lease::TABLE).is_some_and(|table| table.current_size > 0);
        if self.target == WatchTarget::Server || !has_heartbeat {
            return None;
        }
        let heartbeat: Result<Option<DriverHeartbeat>> = lease::read(client);
        heartbeat.ok().flatten().filter(|heartbeat| !heartbeat.has_ended)
    }

    /// Records the heartbeat that was read, or `None` if the server did not answer.
    fn note_answer(&mut self, answer: Option<Option<DriverHeartbeat>>, now: Instant) {
        let Some(seen) = answer else {
            return self.log_change(Some(SilentParty::Server));
        };
        if seen != self.seen || self.logged == Some(SilentParty::Server) {
            (self.seen, self.since) = (seen, now);
            return self.log_change(None);
        }
        if self.target == WatchTarget::Driver && now.duration_since(self.since) >= LEARNER_SILENCE {
            self.log_change(Some(SilentParty::Driver));
        }
    }

    fn log_change(&mut self, silent: Option<SilentParty>) {
        if self.logged == silent {
            return;
        }
        match silent {
            Some(SilentParty::Server) => tracing::info!("the server does not answer: waiting for it"),
            Some(SilentParty::Driver) => tracing::info!("no driver is active: waiting for one"),
            None => tracing::info!("continuing"),
        }
        self.logged = silent;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_reported_once_after_a_delay() {
        let start = Instant::now();
        let mut watch = SilenceWatch { target: WatchTarget::Driver, seen: None, since: start, logged: None };
        let mut after = |seconds: u64, answer: Option<Option<DriverHeartbeat>>| {
            watch.note_answer(answer, start + Duration::from_secs(seconds));
            watch.logged
        };
        assert_eq!(after(4, Some(None)), None);
        assert_eq!(after(5, Some(None)), Some(SilentParty::Driver));
        let heartbeat = |beat| Some(Some(DriverHeartbeat::of_test(beat)));
        assert_eq!(after(10, heartbeat(3)), None);
        assert_eq!(after(14, heartbeat(3)), None);
        assert_eq!(after(15, heartbeat(3)), Some(SilentParty::Driver));
        assert_eq!(after(16, None), Some(SilentParty::Server));
        assert_eq!(after(17, heartbeat(3)), None);
        assert_eq!(after(21, heartbeat(3)), None);
        assert_eq!(after(22, heartbeat(3)), Some(SilentParty::Driver));
    }
}
