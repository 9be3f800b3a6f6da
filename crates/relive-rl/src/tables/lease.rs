//! A lease that ensures a single driver per run: the only item of a table identifies the learner, which renews the item
//! while it is alive.

use std::time::{Duration, Instant};

use relive_client::blocking::Client;
use relive_client::{Nest, Tensor};
use relive_table::TableConfig;

use super::item::{self, is_timeout};
use crate::limits::LEARNER_SILENCE;
use crate::stop::Stop;
use crate::{Result, RlError, seeds};

/// The table of the lease.
pub(crate) const TABLE: &str = "learner";

/// How often a learner sends a heartbeat, and how long it must be silent before another learner replaces it. Observers
/// use only their own clocks, so the clocks of other machines do not matter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeaseTimes {
    pub(crate) heartbeat_interval: Duration,
    pub(crate) silence: Duration,
    pub(crate) check_interval: Duration,
}

/// The times for every run.
pub(crate) const TIMES: LeaseTimes = LeaseTimes {
    heartbeat_interval: Duration::from_secs(1),
    silence: LEARNER_SILENCE,
    check_interval: Duration::from_millis(200),
};

/// The timeout for an item that may not exist.
const TIMEOUT: Duration = Duration::from_millis(200);

/// How long the server may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// Identifies a learner. Of two learners, the one with the greater term continues: the one that started later, or
/// either learner if both started at the same moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Term {
    generation: u64,
    id: u64,
}

/// The content of the item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DriverHeartbeat {
    term: Term,
    /// The number of heartbeats before this one.
    count: u64,
    /// Whether the learner has ended normally.
    pub(crate) has_ended: bool,
}

#[cfg(test)]
impl DriverHeartbeat {
    /// Returns a heartbeat with a distinct number.
    pub(crate) fn of_test(count: u64) -> DriverHeartbeat {
        DriverHeartbeat { term: Term { generation: 1, id: 1 }, count, has_ended: false }
    }
}

/// The exclusive right to learn for a run, as long as it is renewed.
pub(crate) struct Lease {
    client: Client,
    times: LeaseTimes,
    heartbeat: DriverHeartbeat,
    renewed: Instant,
    has_left: bool,
}

pub(crate) fn table() -> TableConfig {
    TableConfig::new(TABLE).max_size(1)
}

impl Lease {
    /// Acquires the lease once it is certain that no other learner is active.
    ///
    /// # Errors
    /// [`OtherLearner`](RlError::OtherLearner) if there is one. Also fails if the server is lost, or if `stop` was set.
    pub(crate) fn take(client: &Client, times: LeaseTimes, stop: &Stop) -> Result<Lease> {
        let before = read(client)?;
        if let Some(heartbeat) = before.filter(|heartbeat| !heartbeat.has_ended) {
            expect_silence(client, heartbeat, times, stop)?;
        }
        Lease::begin(client, times, before)
    }

    /// Acquires the lease on a server of this process. There is no other learner on such a server, so an existing
    /// heartbeat comes from a saved run.
    ///
    /// # Errors
    /// The item is not a heartbeat.
    pub(crate) fn take_own(client: &Client) -> Result<Lease> {
        Lease::begin(client, TIMES, read(client)?)
    }

    fn begin(client: &Client, times: LeaseTimes, before: Option<DriverHeartbeat>) -> Result<Lease> {
        let generation = before.map_or(0, |heartbeat| heartbeat.term.generation).saturating_add(1);
        let id = seeds::unrepeatable();
        let heartbeat = DriverHeartbeat { term: Term { generation, id }, count: 0, has_ended: false };
        write(client, heartbeat)?;
        Ok(Lease { client: client.clone(), times, heartbeat, renewed: Instant::now(), has_left: false })
    }

    /// Sends a heartbeat if one is due.
    ///
    /// # Errors
    /// [`OtherLearner`](RlError::OtherLearner) if another learner has taken the lease. Also fails if the server is
    /// lost.
    pub(crate) fn renew(&mut self) -> Result<()> {
        if self.renewed.elapsed() < self.times.heartbeat_interval {
            return Ok(());
        }
        // An older heartbeat was restored with a checkpoint of the server.
        if read(&self.client)?.is_some_and(|heartbeat| heartbeat.term > self.heartbeat.term) {
            return Err(RlError::OtherLearner);
        }
        self.heartbeat.count += 1;
        match write(&self.client, self.heartbeat) {
            // A server that does not answer is unavailable to all learners; other code waits for it.
            Err(RlError::Replay(error)) if is_timeout(&error) => return Ok(()),
            written => written?,
        }
        self.renewed = Instant::now();
        Ok(())
    }

    /// Releases the lease; the next learner does not need to wait.
    ///
    /// # Errors
    /// The server is lost.
    pub(crate) fn release(mut self) -> Result<()> {
        self.leave()
    }

    fn leave(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.has_left, true) {
            return Ok(());
        }
        if read(&self.client)?.is_some_and(|heartbeat| heartbeat.term > self.heartbeat.term) {
            return Ok(());
        }
        write(&self.client, DriverHeartbeat { has_ended: true, ..self.heartbeat })
    }
}

impl Drop for Lease {
    /// Releases the lease if possible. If it is not released, the next learner waits until this one counts as silent.
    fn drop(&mut self) {
        if let Err(error) = self.leave() {
            tracing::debug!("cannot release the driver's lease: {error}");
        }
    }
}

/// Waits until there has been no heartbeat for the required time.
fn expect_silence(client: &Client, first: DriverHeartbeat, times: LeaseTimes, stop: &Stop) -> Result<()> {
    let silence = times.silence.as_secs_f64();
    tracing::info!("the previous driver did not release its lease: waiting {silence} s for its heartbeat");
    let since = Instant::now();
    while since.elapsed() < times.silence {
        if stop.is_stopped() {
            return Err(RlError::Stopped);
        }
        match read(client)? {
            Some(heartbeat) if heartbeat.has_ended => return Ok(()),
            Some(heartbeat) if heartbeat != first => return Err(RlError::OtherLearner),
            _ => std::thread::sleep(times.check_interval),
        }
    }
    Ok(())
}

fn write(client: &Client, heartbeat: DriverHeartbeat) -> Result<()> {
    let DriverHeartbeat { term: Term { generation, id }, count, has_ended } = heartbeat;
    let fields = [generation, id, count, u64::from(has_ended)];
    let values = Tensor::from_slice(&fields, [4]).map_err(|error| RlError::state(WHAT, error))?;
    let step = Nest::dict([("sign", Nest::Leaf(values))]);
    Ok(client.with_timeout(ANSWER).insert(&step, &[(TABLE, 1.0)])?)
}

/// Returns the content of the table, if it has an item.
pub(crate) fn read(client: &Client) -> Result<Option<DriverHeartbeat>> {
    let Some(columns) = item::newest(client, TABLE, TIMEOUT)? else { return Ok(None) };
    let values = columns.first().map(Tensor::to_vec::<u64>).transpose();
    match values.map_err(|error| RlError::state(WHAT, error))?.as_deref() {
        Some([generation, id, count, has_ended]) => {
            let term = Term { generation: *generation, id: *id };
            Ok(Some(DriverHeartbeat { term, count: *count, has_ended: *has_ended == 1 }))
        }
        _ => Err(RlError::state(WHAT, "it is not four numbers; drop the table `learner`")),
    }
}

const WHAT: &str = "a driver's heartbeat";

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use relive_engine::Engine;

    use super::*;

    /// Short times; the silence is much longer than the heartbeat interval, to tolerate a slow machine.
    const QUICK: LeaseTimes = LeaseTimes {
        heartbeat_interval: Duration::ZERO,
        silence: Duration::from_millis(1_500),
        check_interval: Duration::from_millis(1),
    };

    fn client() -> Client {
        Client::in_process(Engine::builder().table(table()).build().unwrap()).unwrap()
    }

    fn take(client: &Client) -> Result<Lease> {
        Lease::take(client, QUICK, &Stop::new())
    }

    #[test]
    fn a_second_learner_is_refused_while_the_first_is_alive() {
        let client = client();
        let mut first = take(&client).unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    first.renew().unwrap();
                }
            });
            let second = take(&client).map(drop);
            is_over.store(true, Ordering::Relaxed);
            assert!(matches!(second, Err(RlError::OtherLearner)), "{second:?}");
        });
        // Without a heartbeat there is no learner.
        assert!(take(&client).is_ok());
        assert!(
            matches!(first.renew(), Err(RlError::OtherLearner)),
            "a driver that wakes up later is refused"
        );
    }

    #[test]
    fn a_released_lease_is_free_at_once() {
        let client = client();
        take(&client).unwrap().release().unwrap();
        let forever = LeaseTimes { silence: Duration::MAX, ..QUICK };
        assert!(Lease::take(&client, forever, &Stop::new()).is_ok());
    }

    #[test]
    fn of_two_simultaneous_drivers_one_keeps_the_lease() {
        let client = client();
        let [mut one, mut two] = [(); 2].map(|()| {
            let heartbeat =
                DriverHeartbeat { term: Term { generation: 1, id: 0 }, count: 0, has_ended: false };
            Lease {
                client: client.clone(),
                times: QUICK,
                heartbeat,
                renewed: Instant::now(),
                has_left: false,
            }
        });
        (one.heartbeat.term.id, two.heartbeat.term.id) = (5, 9);
        write(&client, two.heartbeat).unwrap();
        write(&client, one.heartbeat).unwrap();
        assert!(two.renew().is_ok());
        assert!(matches!(one.renew(), Err(RlError::OtherLearner)));
        // A learner that has lost the lease does not release it.
        one.release().unwrap();
        assert!(two.renew().is_ok());
    }
}
