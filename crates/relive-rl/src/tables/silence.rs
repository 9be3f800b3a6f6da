//! Logs what a process of a run waits for: a server or a driver that is silent.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::scope;
use std::time::{Duration, Instant};

use relive_client::ServerInfo;
use relive_client::blocking::Client;

use super::lease::{self, DriverHeartbeat};
use crate::Result;
use crate::limits::LEARNER_SILENCE;

/// Time between two checks.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The server's timeout for an answer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// What a process waits for when nothing happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missed {
    /// The driver of the run; used by its workers.
    Driver,
    /// Only the server.
    Server,
}

/// Runs `work`, and meanwhile logs what it waits for: a server that does not answer, or the driver of the
/// run.
pub(crate) fn watched<T>(client: &Client, missed: Missed, work: impl FnOnce() -> T) -> T {
    scope(|threads| {
        let (going_on, ended) = channel::<()>();
        let _end: Sender<()> = going_on;
        threads.spawn(move || {
            let mut watch = SilenceWatch { missed, seen: None, since: Instant::now(), told: None };
            while ended.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                let looked = client.with_timeout(TIMEOUT).server_info();
                watch.look(looked.ok().map(|info| watch.heartbeat(&info, client)), Instant::now());
            }
        });
        work()
    })
}

/// What is silent.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Missing {
    Server,
    Driver,
}

struct SilenceWatch {
    missed: Missed,
    /// The newest heartbeat of the driver.
    seen: Option<DriverHeartbeat>,
    /// When that heartbeat last changed.
    since: Instant,
    told: Option<Missing>,
}

impl SilenceWatch {
    fn heartbeat(&self, info: &ServerInfo, client: &Client) -> Option<DriverHeartbeat> {
        let has_heartbeat = info.table(lease::TABLE).is_some_and(|table| table.current_size > 0);
        if self.missed == Missed::Server || !has_heartbeat {
            return None;
        }
        let heartbeat: Result<Option<DriverHeartbeat>> = lease::read(client);
        heartbeat.ok().flatten().filter(|heartbeat| !heartbeat.has_ended)
    }

    /// Notes the heartbeat that was read; `None` if the server did not answer.
    fn look(&mut self, answer: Option<Option<DriverHeartbeat>>, now: Instant) {
        let Some(seen) = answer else {
            return self.tell(Some(Missing::Server));
        };
        if seen != self.seen || self.told == Some(Missing::Server) {
            (self.seen, self.since) = (seen, now);
            return self.tell(None);
        }
        if self.missed == Missed::Driver && now.duration_since(self.since) >= LEARNER_SILENCE {
            self.tell(Some(Missing::Driver));
        }
    }

    fn tell(&mut self, wanting: Option<Missing>) {
        if self.told == wanting {
            return;
        }
        match wanting {
            Some(Missing::Server) => tracing::info!("the server does not answer: waiting for it"),
            Some(Missing::Driver) => tracing::info!("no driver is active: waiting for one"),
            None => tracing::info!("continuing"),
        }
        self.told = wanting;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told_after_a_while_and_once() {
        let start = Instant::now();
        let mut watch = SilenceWatch { missed: Missed::Driver, seen: None, since: start, told: None };
        let mut after = |seconds: u64, answer: Option<Option<DriverHeartbeat>>| {
            watch.look(answer, start + Duration::from_secs(seconds));
            watch.told
        };
        assert_eq!(after(4, Some(None)), None);
        assert_eq!(after(5, Some(None)), Some(Missing::Driver));
        let heartbeat = |beat| Some(Some(DriverHeartbeat::of_test(beat)));
        assert_eq!(after(10, heartbeat(3)), None);
        assert_eq!(after(14, heartbeat(3)), None);
        assert_eq!(after(15, heartbeat(3)), Some(Missing::Driver));
        assert_eq!(after(16, None), Some(Missing::Server));
        assert_eq!(after(17, heartbeat(3)), None);
        assert_eq!(after(21, heartbeat(3)), None);
        assert_eq!(after(22, heartbeat(3)), Some(Missing::Driver));
    }
}
