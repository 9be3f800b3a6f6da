//! Prefetching in a thread.

use std::task::Poll;

use crate::checkpoint::Checkpoint;
use crate::par::{ShardFlow, Worker};
use crate::pull::{Polled, Pull, Turn};
use crate::{Flow, Result};

/// A stream in a thread, which starts with the first pull.
enum Prefetch<T> {
    Waits(ShardFlow<T>),
    Works(Worker<T>),
    Over,
}

struct Prefetched<T> {
    stream: Prefetch<T>,
    depth: usize,
}

impl<T: Send + 'static> Pull<T> for Prefetched<T> {
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<T> {
        loop {
            match std::mem::replace(&mut self.stream, Prefetch::Over) {
                Prefetch::Over => return Poll::Ready(None),
                Prefetch::Waits(flow) => match Worker::start(flow.take_order(turn.take_order())) {
                    Ok(worker) => {
                        worker.ask(self.depth);
                        self.stream = Prefetch::Works(worker);
                    }
                    Err(error) => return Poll::Ready(Some(Err(error))),
                },
                Prefetch::Works(mut worker) => {
                    let polled = worker.poll_next(turn);
                    match &polled {
                        Poll::Ready(None) => return polled,
                        Poll::Ready(Some(_)) => worker.ask(1),
                        Poll::Pending => {}
                    }
                    self.stream = Prefetch::Works(worker);
                    return polled;
                }
            }
        }
    }

    fn checkpoint(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
        Err(checkpoint.refusal("items that a thread has prefetched cannot be saved"))
    }
}

impl<T: Send + 'static> Flow<T> {
    /// Returns the same items, with up to `depth` of them prefetched by a thread, which starts with the first pull. A
    /// `depth` of 0 is an [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) error at the first pull.
    #[must_use]
    pub fn prefetch(self, depth: usize) -> Flow<T> {
        let name = format!("prefetch({depth})");
        if depth == 0 {
            return self.then_unless(
                Some("a depth of 0 prefetches nothing; the depth must be at least 1"),
                name,
                |upstream| upstream,
            );
        }
        let (node, metrics, sources) = (self.node.clone(), self.metrics.clone(), self.sources);
        let stream = Prefetch::Waits(ShardFlow::one(&name, self));
        let node = crate::node::Node::queue(name, vec![node]);
        Flow::new(Prefetched { stream, depth }, node, metrics).with_sources(sources)
    }
}
