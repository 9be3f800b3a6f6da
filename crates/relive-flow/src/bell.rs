//! One waker for several pullers of one stream.

use std::sync::Arc;
use std::task::{Wake, Waker};

use crate::sync::Mutex;

/// Wakes those of several pullers that wait for what they have in common, which is pulled with the bell as its waker.
/// They are known by their numbers.
#[derive(Default)]
pub(crate) struct Bell(Mutex<Vec<(usize, Waker)>>);

impl Bell {
    /// Wakes this one, too, when it rings.
    pub(crate) fn add(&self, number: usize, waker: &Waker) {
        let mut waiting = self.0.lock();
        match waiting.iter_mut().find(|(other, _)| *other == number) {
            Some((_, known)) => known.clone_from(waker),
            None => waiting.push((number, waker.clone())),
        }
    }

    /// Rings for those that `news` chooses. The others stay where they are found all the time.
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
