//! One waker for several pullers of one stream.

use std::sync::Arc;
use std::task::{Wake, Waker};

use crate::sync::Mutex;

/// Wakes those pullers of a shared stream that wait for it. The shared stream is pulled with the bell as its
/// waker. Pullers are identified by number.
#[derive(Default)]
pub(crate) struct Bell(Mutex<Vec<(usize, Waker)>>);

impl Bell {
    /// Also wakes this puller at the next ring.
    pub(crate) fn add(&self, number: usize, waker: &Waker) {
        let mut waiting = self.0.lock();
        match waiting.iter_mut().find(|(other, _)| *other == number) {
            Some((_, known)) => known.clone_from(waker),
            None => waiting.push((number, waker.clone())),
        }
    }

    /// Wakes the pullers that `news` selects. The others stay registered.
    pub(crate) fn ring_for(&self, news: impl Fn(usize) -> bool) {
        let mut waiting = self.0.lock();
        let (chosen, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut *waiting).into_iter().partition(|(number, _)| news(*number));
        *waiting = others;
        drop(waiting);
        chosen.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring_for(|_| true);
    }
}
