//! The group of a run's learners, as formed by learner 0.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use relive_client::blocking::Client;
use relive_cluster::reduce::{Meeting, Ring, RingOptions};

use super::message::{from_bytes, to_bytes};
use super::{Layouts, Message};
use crate::contracts::Peers;
use crate::identity::Identity;
use crate::stop::Stop;
use crate::tables::learners::Joining;
use crate::{Result, seeds};

/// How long the other learners may take to join: each is a new process, which may load a large library.
const MEETING: Duration = Duration::from_mins(5);

/// How long a call waits for live learners. Learners wait for experience, which may take arbitrarily long. The loss or
/// suspension of a process is detected within seconds.
const TIMEOUT: Duration = Duration::from_hours(24);

/// How long a call continues after the run has been stopped; usually it ends earlier.
const AFTER_STOP: Duration = Duration::from_secs(5);

/// The learners of a run.
pub(crate) struct Team {
    pub(crate) peers: Peers,
    /// The layouts of the run's rollouts.
    layouts: Layouts,
    /// Present until all learners have joined.
    meeting: Mutex<Option<(Meeting, Joining)>>,
    stop: Stop,
    /// The number of gradient steps in which this learner took part.
    steps: AtomicU64,
}

impl Team {
    /// Opens a meeting of `count` learners on this machine. The run has `workers` workers and takes `env_steps` steps.
    ///
    /// # Errors
    /// It is not possible to listen at the address.
    pub(crate) fn open(
        count: u32,
        workers: usize,
        env_steps: u64,
        identity: &Identity,
        layouts: Layouts,
        stop: &Stop,
    ) -> Result<Arc<Team>> {
        let token = format!("{:016x}{:016x}", seeds::unrepeatable(), seeds::unrepeatable());
        let meeting = Meeting::open("127.0.0.1:0", options(count, identity, &token))?;
        let (meeting_at, workers) = (meeting.address().to_string(), workers as u64);
        let joining = Joining { count, meeting: meeting_at, token, workers, env_steps };
        let (peers, stop) = (Peers::expected(count), stop.clone());
        let (meeting, steps) = (Mutex::new(Some((meeting, joining))), AtomicU64::new(0));
        Ok(Arc::new(Team { peers, layouts, meeting, stop, steps }))
    }

    /// Writes to the run's table the data that other learners need for joining.
    ///
    /// # Errors
    /// The table cannot be written.
    pub(crate) fn announce(&self, client: &Client, identity: &Identity) -> Result<()> {
        let mut meeting = self.meeting.lock();
        meeting.as_mut().map_or(Ok(()), |(_, joining)| joining.put(client, identity))
    }

    /// Joins a run's group of learners.
    ///
    /// # Errors
    /// The learner is rejected, or not all learners arrive.
    pub(crate) fn join(
        joining: &Joining,
        rank: u32,
        identity: &Identity,
        layouts: Layouts,
        stop: &Stop,
    ) -> Result<Team> {
        let ring = Ring::join(&joining.meeting, rank, options(joining.count, identity, &joining.token))?;
        let peers = Peers::from(ring.checked_by(unless_stopped(stop)));
        Ok(Team { peers, layouts, meeting: Mutex::default(), stop: stop.clone(), steps: AtomicU64::new(0) })
    }

    /// Waits for the other learners, which receive the state of this learner. Ends early if the run is stopped.
    ///
    /// # Errors
    /// Not all learners arrive.
    pub(crate) fn meet(&self, mut state: Vec<u8>) -> Result<()> {
        let Some((meeting, _)) = self.meeting.lock().take() else { return Ok(()) };
        let is_on = || if self.stop.is_stopped() { Err("the run was stopped".to_owned()) } else { Ok(()) };
        let ring = meeting.ring(is_on);
        if self.stop.is_stopped() {
            return Ok(());
        }
        self.peers.meet(ring?.checked_by(unless_stopped(&self.stop)))?;
        self.peers.broadcast(&mut state)
    }

    /// Returns the state of learner 0 at the time when all had joined.
    pub(crate) fn state(&self) -> Result<Vec<u8>> {
        let mut state = Vec::new();
        self.peers.broadcast(&mut state)?;
        Ok(state)
    }

    /// Sends an item to all other learners.
    pub(crate) fn send<T: Message>(&self, item: &mut T) -> Result<()> {
        self.peers.broadcast(&mut to_bytes(item)?)
    }

    /// Receives an item from learner 0.
    pub(crate) fn receive<T: Message>(&self) -> Result<T> {
        let mut bytes = Vec::new();
        self.peers.broadcast(&mut bytes)?;
        from_bytes("what learner 0 has sent", &bytes, &self.layouts)
    }

    /// Adds gradient steps in which this learner took part.
    pub(crate) fn note(&self, steps: u64) {
        self.steps.fetch_add(steps, Ordering::Relaxed);
    }

    /// Returns the number of gradient steps in which this learner took part.
    pub(crate) fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// Checks that all learners are alive.
    ///
    /// # Errors
    /// The learner that is lost or has left.
    pub(crate) fn check(&self) -> Result<()> {
        self.peers.check()
    }

    /// Leaves because the run is over.
    pub(crate) fn leave(&self) {
        self.peers.leave();
    }

    /// Leaves because the run has failed; does nothing if the run is over.
    pub(crate) fn fail(&self, reason: &str) {
        self.peers.fail(reason);
    }
}

fn options(ranks: u32, identity: &Identity, token: &str) -> RingOptions {
    RingOptions {
        ranks,
        job: format!("{} in {}", identity.agent, identity.environment),
        token: token.to_owned(),
        meeting: MEETING,
        timeout: TIMEOUT,
        ..RingOptions::default()
    }
}

/// Ends a call that continues for too long after the run has been stopped.
fn unless_stopped(stop: &Stop) -> impl Fn() -> std::result::Result<(), String> + Send + Sync + 'static {
    let (stop, since) = (stop.clone(), OnceLock::new());
    move || match stop.is_stopped() && since.get_or_init(Instant::now).elapsed() >= AFTER_STOP {
        true => Err("the run was stopped".to_owned()),
        false => Ok(()),
    }
}
