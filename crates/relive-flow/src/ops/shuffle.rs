//! Returns items in a random order.

use std::task::Poll;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::checkpoint::Checkpoint;
use crate::item::Tagged;
use crate::pull::{Polled, Pull, Turn};
use crate::{Flow, Result};

struct Shuffle<T> {
    upstream: Box<dyn Pull<T>>,
    size: usize,
    buffer: Vec<Tagged<T>>,
    rng: Xoshiro256PlusPlus,
    is_over: bool,
}

impl<T: Send> Pull<T> for Shuffle<T> {
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<T> {
        while !self.is_over && self.buffer.len() < self.size {
            match self.upstream.poll_next(turn) {
                Poll::Ready(Some(Ok(tagged))) => self.buffer.push(tagged),
                Poll::Ready(None) => self.is_over = true,
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Pending => return Poll::Pending,
            }
        }
        if self.buffer.is_empty() {
            return Poll::Ready(None);
        }
        let chosen = self.rng.random_range(0..self.buffer.len());
        Poll::Ready(Some(Ok(self.buffer.swap_remove(chosen))))
    }

    fn checkpoint(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
        // If the buffer is empty, the shuffle has not started or is over, so its random stream need not be saved. With
        // a buffer of one item, random numbers have no effect.
        checkpoint.holds(self.buffer.len());
        checkpoint.flag(&mut self.is_over);
        self.upstream.checkpoint(checkpoint)
    }
}

impl<T: Send + 'static> Flow<T> {
    /// Returns the items in random order: each item is drawn from a buffer of the next `buffer` items. A buffer of one
    /// item keeps the order; with a buffer that holds all items, all orders are equally likely. The same seed gives the
    /// same order. A buffer of 0 is an [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) error at the first pull.
    #[must_use]
    pub fn shuffle(self, buffer: usize, seed: u64) -> Flow<T> {
        let fault = (buffer == 0).then_some("the buffer must hold at least one item");
        self.then_unless(fault, format!("shuffle({buffer})"), |upstream| Shuffle {
            upstream,
            size: buffer,
            buffer: Vec::new(),
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            is_over: false,
        })
    }
}
