//! Telling what a process of a run waits for.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::scope;
use std::time::{Duration, Instant};

use relive_client::ServerInfo;
use relive_client::blocking::Client;

use super::lease::{self, Sign, TIMES};
use crate::Result;

/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How long something may be missing before that is told.
const GRACE: Duration = Duration::from_millis(1_500);

/// How long a server may take for an answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Who is missed where nothing happens.
#[derive(Debug, Clone)]
pub(super) enum Missed {
    /// The learner, by those who act.
    Learner,
    /// Actors, by the learner, which reads this table.
    Actors(String),
    /// Nobody but the server.
    Nobody,
}

/// Runs `work`, and meanwhile says in the log what it waits for: a server that does not answer, a learner, actors.
pub(super) fn watched<T>(client: &Client, missed: Missed, work: impl FnOnce() -> T) -> T {
    scope(|threads| {
        let (going_on, ended) = channel::<()>();
        let _end: Sender<()> = going_on;
        threads.spawn(move || {
            let mut watch = Watch { missed, seen: Seen::None, since: Instant::now(), told: None };
            while ended.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                let looked = client.with_timeout(PATIENCE).server_info();
                watch.look(looked.ok().map(|info| watch.seen_in(&info, client)), Instant::now());
            }
        });
        work()
    })
}

/// What shows that somebody is there: it changes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Seen {
    None,
    Sign(Sign),
    Counts { inserts: i64, samples: i64 },
}

/// What is missing.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Wanting {
    Server,
    Other,
}

struct Watch {
    missed: Missed,
    seen: Seen,
    /// When it was last another one.
    since: Instant,
    told: Option<Wanting>,
}

impl Watch {
    fn seen_in(&self, info: &ServerInfo, client: &Client) -> Seen {
        match &self.missed {
            Missed::Learner => {
                let has_sign = info.table(lease::TABLE).is_some_and(|table| table.current_size > 0);
                let sign: Result<Option<Sign>> = if has_sign { lease::read(client) } else { Ok(None) };
                sign.ok().flatten().filter(|sign| !sign.has_ended).map_or(Seen::None, Seen::Sign)
            }
            Missed::Nobody => Seen::None,
            Missed::Actors(table) => info
                .table(table)
                .map_or(Seen::None, |table| Seen::Counts { inserts: table.inserts, samples: table.samples }),
        }
    }

    /// Notes what was seen, nothing if the server has not answered.
    fn look(&mut self, seen: Option<Seen>, now: Instant) {
        let Some(seen) = seen else {
            return self.tell(Some(Wanting::Server));
        };
        if seen != self.seen || self.told == Some(Wanting::Server) {
            (self.seen, self.since) = (seen, now);
            return self.tell(None);
        }
        let grace = match self.seen {
            Seen::None | Seen::Counts { inserts: 0, .. } => GRACE,
            _ => TIMES.silence,
        };
        let is_missed = !matches!(self.missed, Missed::Nobody);
        if is_missed && now.duration_since(self.since) >= grace {
            self.tell(Some(Wanting::Other));
        }
    }

    fn tell(&mut self, wanting: Option<Wanting>) {
        if self.told == wanting {
            return;
        }
        match (wanting, &self.missed) {
            (Some(Wanting::Server), _) => tracing::info!("the server does not answer: waiting for it"),
            (Some(Wanting::Other), Missed::Learner) => {
                tracing::info!("no learner is at work: waiting for one");
            }
            (Some(Wanting::Other), Missed::Actors(table)) => {
                tracing::info!("nothing comes into the table `{table}`: waiting for actors");
            }
            (Some(Wanting::Other), Missed::Nobody) => {}
            (None, _) => tracing::info!("going on"),
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
        let missed = Missed::Actors("replay".to_owned());
        let mut watch = Watch { missed, seen: Seen::None, since: start, told: None };
        let mut after = |seconds: u64, seen: Option<Seen>| {
            watch.look(seen, start + Duration::from_secs(seconds));
            watch.told
        };
        assert_eq!(after(1, Some(Seen::None)), None);
        assert_eq!(after(2, Some(Seen::None)), Some(Wanting::Other));
        let counts = |inserts: i64| Some(Seen::Counts { inserts, samples: 0 });
        assert_eq!(after(10, counts(3)), None);
        assert_eq!(after(14, counts(3)), None);
        assert_eq!(after(15, counts(3)), Some(Wanting::Other));
        assert_eq!(after(16, None), Some(Wanting::Server));
        assert_eq!(after(17, counts(3)), None);
        assert_eq!(after(21, counts(3)), None);
        assert_eq!(after(22, counts(3)), Some(Wanting::Other));
    }
}
