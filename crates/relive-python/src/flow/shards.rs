//! Parallel flows of objects.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use relive_flow::{Async, Executor, Flow, ParFlow, Resubmit, Shard};

use super::operator::Operator;
use super::raise::Failed;
use super::source::{self, Item};
use super::stream::Stream;
use super::turns::{ItemTurns, Turns};
use crate::interpreter::finalization;
use crate::interpreter::lock::Brief;

/// Shards, until they are gathered.
#[pyclass(frozen, module = "relive._native", name = "FlowShards")]
pub(crate) struct Shards {
    flow: Brief<Option<ParFlow<Item>>>,
    /// Whether no operator has threads of its own, which need the interpreter to end.
    is_apart: bool,
}

impl Shards {
    fn new(flow: ParFlow<Item>, is_apart: bool) -> Shards {
        Shards { flow: Brief::new(Some(flow)), is_apart }
    }

    fn taken(&self) -> PyResult<ParFlow<Item>> {
        let taken = self.flow.take();
        taken.ok_or_else(|| PyValueError::new_err("these shards are already part of other shards"))
    }
}

#[pymethods]
impl Shards {
    /// Returns one shard for each iterable. The shards run in the consumer's thread, or each in its own thread. A shard
    /// with turns makes each item in a turn of its own.
    #[staticmethod]
    #[pyo3(signature = (name, iterables, has_threads, turns = Vec::new()))]
    fn of(
        name: String,
        iterables: Vec<Py<PyAny>>,
        has_threads: bool,
        turns: Vec<Option<PyRef<'_, Turns>>>,
    ) -> Shards {
        let executor = if has_threads { Executor::Threads } else { Executor::Serial };
        let count = u32::try_from(iterables.len()).unwrap_or(u32::MAX);
        let iterables = Arc::new(iterables);
        let flow = move |number: u32| {
            let iterable = iterables.get(usize::try_from(number).unwrap_or(usize::MAX));
            match iterable {
                Some(iterable) => finalization::attach(|py| source::items(&name, iterable.clone_ref(py))),
                None => Flow::from_iter(&name, std::iter::empty()),
            }
        };
        let shards = ParFlow::from_flows(&executor, count, |_| (), move |shard| flow(shard.number()));
        // Each thread holds the interpreter while it makes an item; otherwise, the threads would constantly pass it to
        // each other.
        let turns: Arc<[Option<ItemTurns>]> =
            turns.into_iter().map(|turns| turns.map(|turns| turns.of_items())).collect();
        let make_all = move |number: u32, make: &mut dyn FnMut() -> bool| {
            let turns = usize::try_from(number).ok().and_then(|number| turns.get(number)?.as_ref());
            finalization::attach(|py| match turns {
                Some(turns) => while turns.with(py, &mut *make) {},
                None => while make() {},
            });
        };
        Shards::new(shards.around(make_all), true)
    }

    fn then(&self, operator: Operator) -> PyResult<Shards> {
        let is_apart = self.is_apart && !operator.has_a_thread();
        let over = move |flow, shard: &Shard<()>| operator.over(flow, shard.source().0);
        Ok(Shards::new(self.taken()?.on_each(over), is_apart))
    }

    fn union(&self, other: &Shards) -> PyResult<Shards> {
        Ok(Shards::new(self.taken()?.union(other.taken()?), self.is_apart && other.is_apart))
    }

    #[expect(clippy::needless_pass_by_value, reason = "PyO3 passes lists by value")]
    fn select(&self, numbers: Vec<u32>) -> PyResult<Shards> {
        Ok(Shards::new(self.taken()?.select_shards(&numbers), self.is_apart))
    }

    fn repartition(&self, shards: u32) -> PyResult<Shards> {
        Ok(Shards::new(self.taken()?.repartition(shards), self.is_apart))
    }

    fn gather_sync(&self) -> PyResult<Stream> {
        Ok(Stream::of_graph(self.taken()?.gather_sync(), self.is_apart))
    }

    /// Merges items as they arrive; each shard may be `depth` items ahead. With `is_fresh`, a shard makes its next item
    /// only after its previous item has been taken.
    fn gather_async(&self, depth: usize, is_fresh: bool) -> PyResult<Stream> {
        let resubmit = if is_fresh { Resubmit::After } else { Resubmit::Before };
        Ok(Stream::of_graph(self.taken()?.gather_async(Async { depth, resubmit }), self.is_apart))
    }

    /// Yields lists with one item from each shard.
    fn batch_across_shards(&self) -> PyResult<Stream> {
        let rounds = self.taken()?.batch_across_shards().try_for_each(|round| {
            finalization::attach(|py| {
                let list = PyList::new(py, round.into_iter().map(|item| item.0))?;
                Ok::<_, Failed>(Item(list.into_any().unbind()))
            })
        });
        Ok(Stream::of_graph(rounds.named("list"), self.is_apart))
    }

    /// Returns each shard as a flow.
    fn streams(&self, depth: usize) -> PyResult<Vec<Stream>> {
        Ok(self.taken()?.into_flows(depth).into_iter().map(|flow| Stream::of_graph(flow, false)).collect())
    }
}
