//! Operators that apply a function to each item.

use std::error::Error;
use std::sync::Arc;
use std::task::Poll;

use crate::checkpoint::Checkpoint;
use crate::item::{Source, Tagged};
use crate::metrics::Metrics;
use crate::node::Node;
use crate::pull::{Polled, Pull, Turn};
use crate::{Flow, Result};

/// The context of an operator's function, apart from its item.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The metrics that the operators of the graph share.
    pub metrics: &'a Metrics,
    /// The source of the item.
    pub source: Option<Source>,
    /// The number of the item at this operator, counted from 0.
    pub item: u64,
}

/// Applies `function` to each item of `upstream`; if the result is `None`, the next item is pulled.
struct Each<T, F> {
    upstream: Box<dyn Pull<T>>,
    function: F,
    node: Arc<Node>,
    seen: u64,
}

impl<T, U, F> Pull<U> for Each<T, F>
where
    F: FnMut(&Node, u64, Tagged<T>) -> Result<Option<Tagged<U>>> + Send,
{
    #[inline]
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<U> {
        loop {
            let tagged = match self.upstream.poll_next(turn) {
                Poll::Ready(Some(Ok(tagged))) => tagged,
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            };
            let number = self.seen;
            self.seen += 1;
            match (self.function)(&self.node, number, tagged) {
                Ok(None) => {}
                Ok(Some(tagged)) => return Poll::Ready(Some(Ok(tagged))),
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
    }

    fn checkpoint(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
        checkpoint.number(&mut self.seen);
        self.upstream.checkpoint(checkpoint)
    }
}

/// Adapts a function to the form that [`Each`] uses.
fn calling<T, U>(
    mut function: impl FnMut(T) -> U + Send,
) -> impl FnMut(&Node, u64, Tagged<T>) -> Result<Option<Tagged<U>>> + Send {
    move |node, number, Tagged { item, source }| {
        let item = node.call(source, number, || function(item))?;
        Ok(Some(Tagged { item, source }))
    }
}

/// Applies `function` to each item of `upstream`, as part of an operator.
pub(super) fn each_of<T, U>(
    upstream: Box<dyn Pull<T>>,
    node: Arc<Node>,
    function: impl FnMut(T) -> U + Send,
) -> impl Pull<U> {
    Each { upstream, function: calling(function), node, seen: 0 }
}

impl<T: 'static> Flow<T> {
    fn each<U: Send + 'static>(
        self,
        name: &str,
        function: impl FnMut(&Node, u64, Tagged<T>) -> Result<Option<Tagged<U>>> + Send + 'static,
    ) -> Flow<U> {
        self.then(name, |upstream, node| Each { upstream, function, node, seen: 0 })
    }

    /// Applies `function` to each item.
    #[must_use]
    pub fn for_each<U: Send + 'static>(self, function: impl FnMut(T) -> U + Send + 'static) -> Flow<U> {
        self.each("for_each", calling(function))
    }

    /// Like [`for_each`](Self::for_each), but for a fallible function.
    #[must_use]
    pub fn try_for_each<U: Send + 'static, E>(
        self,
        mut function: impl FnMut(T) -> Result<U, E> + Send + 'static,
    ) -> Flow<U>
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.each("for_each", move |node, number, Tagged { item, source }| {
            let item = node.try_call(source, number, || function(item))?;
            Ok(Some(Tagged { item, source }))
        })
    }

    /// Like [`for_each`](Self::for_each), but for a function that also receives the context.
    #[must_use]
    pub fn for_each_with<U: Send + 'static>(
        self,
        mut function: impl FnMut(Context<'_>, T) -> U + Send + 'static,
    ) -> Flow<U> {
        let metrics = self.metrics.clone();
        self.each("for_each", move |node, number, Tagged { item, source }| {
            let context = Context { metrics: &metrics, source, item: number };
            let item = node.call(source, number, || function(context, item))?;
            Ok(Some(Tagged { item, source }))
        })
    }
}

impl<T: 'static> Flow<T> {
    /// Applies a fallible function to each item with its context, and drops the items for which it returns
    /// `None`.
    ///
    /// ```
    /// use relive_flow::Flow;
    ///
    /// let words = Flow::from_iter("words", ["1", "", "3"]);
    /// let numbers = words.try_filter_map(|context, word| match (context.item, word) {
    ///     (_, "") => Ok(None),
    ///     (item, word) => word.parse::<u64>().map(|number| Some((item, number))),
    /// });
    /// assert_eq!(numbers.into_iter().collect::<Result<Vec<_>, _>>()?, [(0, 1), (2, 3)]);
    /// # Ok::<(), relive_flow::FlowError>(())
    /// ```
    #[must_use]
    pub fn try_filter_map<U: Send + 'static, E>(
        self,
        mut function: impl FnMut(Context<'_>, T) -> Result<Option<U>, E> + Send + 'static,
    ) -> Flow<U>
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let metrics = self.metrics.clone();
        self.each("filter_map", move |node, number, Tagged { item, source }| {
            let context = Context { metrics: &metrics, source, item: number };
            let made = node.try_call(source, number, || function(context, item))?;
            Ok(made.map(|item| Tagged { item, source }))
        })
    }
}

impl<T: Send + 'static> Flow<T> {
    /// Calls `look` with each item, and then passes the item on.
    #[must_use]
    pub fn inspect_with(self, mut look: impl FnMut(Context<'_>, &T) + Send + 'static) -> Flow<T> {
        let metrics = self.metrics.clone();
        self.each("inspect", move |node, number, tagged| {
            let context = Context { metrics: &metrics, source: tagged.source, item: number };
            node.call(tagged.source, number, || look(context, &tagged.item))?;
            Ok(Some(tagged))
        })
    }

    /// Keeps the items for which `keep` returns true.
    #[must_use]
    pub fn filter(self, mut keep: impl FnMut(&T) -> bool + Send + 'static) -> Flow<T> {
        self.each("filter", move |node, number, tagged| {
            let keeps = node.call(tagged.source, number, || keep(&tagged.item))?;
            Ok(keeps.then_some(tagged))
        })
    }

    /// Pairs each item with its source.
    ///
    /// # Errors
    /// The flow yields an [`ErrorKind::Operator`](crate::ErrorKind::Operator) error for an item without a source, or an
    /// item combined from several sources.
    #[must_use]
    pub fn zip_with_source(self) -> Flow<(Source, T)> {
        self.each("zip_with_source", |node, number, Tagged { item, source }| {
            let known =
                source.ok_or("the item has no single source: it comes from no shard, or from several");
            let known = node.try_call(source, number, || known)?;
            Ok(Some(Tagged { item: (known, item), source }))
        })
    }
}
