//! Collects items into lists, and flattens lists.

use std::task::Poll;

use super::each::each_of;
use crate::checkpoint::Checkpoint;
use crate::item::{Source, Tagged};
use crate::pull::{Polled, Pull, Turn};
use crate::{Flow, Result};

/// Collects items into lists.
struct Batch<T> {
    upstream: Box<dyn Pull<T>>,
    size: usize,
    collected: Vec<T>,
    source: Option<Source>,
    is_over: bool,
}

impl<T> Batch<T> {
    fn add(&mut self, Tagged { item, source }: Tagged<T>) {
        self.source =
            if self.collected.is_empty() { source } else { self.source.filter(|own| Some(*own) == source) };
        self.collected.push(item);
    }

    fn emit(&mut self) -> Polled<Vec<T>> {
        let next = Vec::with_capacity(self.collected.len());
        let item = std::mem::replace(&mut self.collected, next);
        Poll::Ready(Some(Ok(Tagged { item, source: self.source })))
    }
}

impl<T: Send> Pull<Vec<T>> for Batch<T> {
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<Vec<T>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        while self.collected.len() < self.size {
            match self.upstream.poll_next(turn) {
                Poll::Ready(Some(Ok(tagged))) => self.add(tagged),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => {
                    self.is_over = true;
                    return if self.collected.is_empty() { Poll::Ready(None) } else { self.emit() };
                }
                Poll::Pending => return Poll::Pending,
            }
        }
        self.emit()
    }

    fn checkpoint(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
        checkpoint.holds(self.collected.len());
        checkpoint.flag(&mut self.is_over);
        self.upstream.checkpoint(checkpoint)
    }
}

/// Yields the items of lists.
struct Flatten<C: IntoIterator, P> {
    upstream: P,
    open: Option<(C::IntoIter, Option<Source>)>,
}

impl<C, P: Pull<C>> Pull<C::Item> for Flatten<C, P>
where
    C: IntoIterator,
    C::IntoIter: Send,
{
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<C::Item> {
        loop {
            if let Some((items, source)) = &mut self.open {
                match items.next() {
                    Some(item) => return Poll::Ready(Some(Ok(Tagged { item, source: *source }))),
                    None => self.open = None,
                }
            }
            match self.upstream.poll_next(turn) {
                Poll::Ready(Some(Ok(Tagged { item, source }))) => {
                    self.open = Some((item.into_iter(), source));
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn checkpoint(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
        let left = self.open.as_ref().map(|(items, _)| items.size_hint().1);
        // An iterator that does not report its length may yield another item.
        checkpoint.holds(left.map_or(0, |left| left.unwrap_or(1)));
        self.upstream.checkpoint(checkpoint)
    }
}

impl<T: Send + 'static> Flow<T> {
    /// Returns lists of `size` items; the last list may be shorter. If all items have the same source, the list also
    /// has this source. A `size` of 0 is an [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) error at the first pull.
    #[must_use]
    pub fn batch(self, size: usize) -> Flow<Vec<T>> {
        let fault = (size == 0).then_some("a batch must have at least one item");
        self.then_unless(fault, format!("batch({size})"), |upstream| Batch {
            upstream,
            size,
            collected: Vec::new(),
            source: None,
            is_over: false,
        })
    }
}

impl<C> Flow<C>
where
    C: IntoIterator + 'static,
    C::IntoIter: Send + 'static,
    C::Item: Send + 'static,
{
    /// Returns the elements of each item, one by one.
    #[must_use]
    pub fn flatten(self) -> Flow<C::Item> {
        self.then("flatten", |upstream, _| Flatten { upstream, open: None })
    }
}

impl<T: 'static> Flow<T> {
    /// Applies `function` to each item, and flattens the results, which may be empty.
    #[must_use]
    pub fn combine<C>(self, function: impl FnMut(T) -> C + Send + 'static) -> Flow<C::Item>
    where
        C: IntoIterator + 'static,
        C::IntoIter: Send + 'static,
        C::Item: Send + 'static,
    {
        self.then("combine", |upstream, node| Flatten {
            upstream: each_of(upstream, node, function),
            open: None,
        })
    }
}
