//! The connections to metrics and the dashboard. At the maximum, a new connection displaces the one that has been idle
//! for longest.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The slots.
#[derive(Debug)]
pub(super) struct ConnectionSlots {
    limit: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// A number that increases with each event. The least recently used slot has the smallest number.
    moment: u64,
    taken: HashMap<u64, SlotUse>,
}

#[derive(Debug)]
struct SlotUse {
    used_at: u64,
    /// Requests in progress.
    busy: usize,
    leave: Arc<Notify>,
}

/// The slot of one connection, which is occupied until this value is dropped.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    slots: Arc<ConnectionSlots>,
    id: u64,
    leave: Arc<Notify>,
}

/// A request on a connection, which exists until the request is answered.
#[derive(Debug)]
pub(super) struct InUse(Arc<ConnectionSlot>);

impl ConnectionSlots {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, state: Mutex::default() })
    }

    /// Takes a slot for a new connection. If none is free, signals the connection that has been idle for longest to
    /// close. Returns `None` if all connections are busy.
    pub(super) fn take(self: &Arc<Self>) -> Option<Arc<ConnectionSlot>> {
        let mut state = self.state.lock();
        if state.taken.len() >= self.limit {
            let idle = state.taken.iter().filter(|(_, taken)| taken.busy == 0);
            let idlest = idle.min_by_key(|(_, taken)| taken.used_at).map(|(id, _)| *id)?;
            let taken = state.taken.remove(&idlest)?;
            taken.leave.notify_one();
        }
        let id = state.next();
        let leave = Arc::new(Notify::new());
        state.taken.insert(id, SlotUse { used_at: id, busy: 0, leave: Arc::clone(&leave) });
        Some(Arc::new(ConnectionSlot { slots: Arc::clone(self), id, leave }))
    }
}

impl State {
    fn next(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }
}

impl ConnectionSlot {
    /// Resolves when the connection must close.
    pub(super) async fn must_close(&self) {
        self.leave.notified().await;
    }

    /// Records the arrival of a request.
    pub(super) fn begin(self: &Arc<Self>) -> InUse {
        if let Some(taken) = self.slots.state.lock().taken.get_mut(&self.id) {
            taken.busy += 1;
        }
        InUse(Arc::clone(self))
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let mut state = self.0.slots.state.lock();
        let moment = state.next();
        if let Some(taken) = state.taken.get_mut(&self.0.id) {
            taken.busy -= 1;
            taken.used_at = moment;
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.slots.state.lock().taken.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    async fn must_close(slot: &ConnectionSlot) -> bool {
        timeout(Duration::from_millis(1), slot.must_close()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn the_most_idle_connection_is_evicted() {
        let slots = ConnectionSlots::new(3);
        let [busy, silent, used] = [(); 3].map(|()| slots.take().unwrap());
        let answering = busy.begin();
        drop(used.begin());
        let fourth = slots.take().unwrap();
        assert!(must_close(&silent).await);
        drop(silent);
        let _fifth = slots.take().unwrap();
        assert!(must_close(&used).await, "it was last used before the fourth connected");
        assert!(!must_close(&fourth).await);
        drop(answering);
        assert!(!must_close(&busy).await);
    }

    #[test]
    fn a_connection_being_answered_is_not_evicted() {
        let slots = ConnectionSlots::new(2);
        let taken = [(); 2].map(|()| slots.take().unwrap());
        let uses = taken.each_ref().map(ConnectionSlot::begin);
        assert!(slots.take().is_none());
        drop(uses);
        assert!(slots.take().is_some());
        drop(taken);
        assert!(slots.take().is_some() && slots.take().is_some());
    }
}
