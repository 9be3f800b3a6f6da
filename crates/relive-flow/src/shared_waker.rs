//! One waker for several pullers of one stream.

use std::sync::Arc;
use std::task::{Wake, Waker};

use crate::sync::Mutex;

/// Wakes the pullers that are waiting for a shared stream. This is the waker with which the shared stream is pulled.
/// Pullers are identified by number.
#[derive(Default)]
pub(crate) struct SharedWaker(Mutex<Vec<(usize, Waker)>>);

impl SharedWaker {
    /// Registers a puller to be woken, along with the others, the next time this waker is woken.
    pub(crate) fn add(&self, number: usize, waker: &Waker) {
        let mut waiting = self.0.lock();
        match waiting.iter_mut().find(|(other, _)| *other == number) {
            Some((_, known)) => known.clone_from(waker),
            None => waiting.push((number, waker.clone())),
        }
    }

    /// Wakes the pullers that `is_selected` selects. All other pullers stay registered.
    pub(crate) fn wake_selected(&self, is_selected: impl Fn(usize) -> bool) {
        let mut waiting = self.0.lock();
        let (chosen, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut *waiting).into_iter().partition(|(number, _)| is_selected(*number));
        *waiting = others;
        drop(waiting);
        chosen.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

impl Wake for SharedWaker {
    fn wake(self: Arc<Self>) {
        self.wake_selected(|_| true);
    }
}
