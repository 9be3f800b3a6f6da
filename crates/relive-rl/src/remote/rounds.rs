//! The workers' results as streams in the driver: in rounds, or in order of arrival.

use std::ops::RangeBounds;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use relive_flow::{Flow, Polled, Pull, Source, Tagged, Turn};

use super::driver::Driver;
use super::message::from_bytes;
use super::{Layouts, Message};
use crate::tables::orders::Order;
use crate::tables::results::{FromWorker, Reader, WorkerEvent};
use crate::{Result, RlError};

/// After this time, the order for a round is repeated to workers that have not sent their results. A worker that
/// replaces a killed one receives the order immediately; the repetition is for workers that were disconnected and have
/// returned.
const ORDER_AGAIN_AFTER: Duration = Duration::from_secs(2);

/// Workers' messages that concern the plan.
enum WorkerMessage<T> {
    /// Items, and the round to which they belong.
    Produced { worker: u32, round: u64, items: Vec<T> },
    /// A worker joined the run, possibly to replace a killed one.
    Joined { worker: u32 },
}

impl Driver {
    /// Returns the results of each worker for a round, in the order of workers. A round begins when it is pulled.
    pub(crate) fn rounds<T: Message>(self: &Arc<Driver>, layouts: Layouts) -> Flow<Vec<T>> {
        self.nodes().fix();
        let driver = Arc::clone(self);
        let rounds = Rounds { driver, layouts, reader: None, begun: None };
        Flow::from_pull("rounds of workers", rounds).try_for_each(|round: Result<Vec<T>>| round)
    }

    /// Returns the results of workers in order of arrival, as lists of items that arrived together.
    pub(crate) fn in_arrival_order<T: Message>(self: &Arc<Driver>, layouts: Layouts) -> Flow<Vec<T>> {
        let driver = Arc::clone(self);
        let results = Flow::from_pull("workers", ArrivalOrder { driver, layouts, reader: None });
        results.try_for_each(|result: Result<Vec<T>>| result)
    }
}

/// A round in progress.
struct Round<T> {
    order: Order,
    made: Vec<Option<T>>,
    ordered: Instant,
}

struct Rounds<T> {
    driver: Arc<Driver>,
    layouts: Layouts,
    reader: Option<Reader>,
    begun: Option<Round<T>>,
}

impl<T: Message> Rounds<T> {
    fn poll(&mut self) -> Result<Option<Vec<T>>> {
        if self.begun.is_none() {
            self.begun = Some(self.begin()?);
        }
        let (Some(begun), driver) = (&mut self.begun, &self.driver) else { return Ok(None) };
        if begun.ordered.elapsed() >= ORDER_AGAIN_AFTER {
            begun.ordered = Instant::now();
            begun.order(driver, ..)?;
        }
        let (worker, round, items) = match next_message(driver, &mut self.reader, &self.layouts)? {
            None => return Ok(None),
            // The previous worker with this number may have been killed after it received the order.
            Some(WorkerMessage::Joined { worker }) => {
                begun.order(driver, place(worker)..=place(worker))?;
                return Ok(None);
            }
            Some(WorkerMessage::Produced { worker, round, items }) => (place(worker), round, items),
        };
        // Late results belong to a round that another worker has completed, or to a previous driver.
        if round == begun.order.round
            && let Some(place @ None) = begun.made.get_mut(worker)
        {
            *place = items.into_iter().next();
        }
        if begun.made.iter().any(Option::is_none) {
            return Ok(None);
        }
        Ok(self.begun.take().map(|round| round.made.into_iter().flatten().collect()))
    }

    fn begin(&self) -> Result<Round<T>> {
        let order = self.driver.begin_round()?;
        let made = std::iter::repeat_with(|| None).take(self.driver.workers()).collect();
        let round = Round { order, made, ordered: Instant::now() };
        round.order(&self.driver, ..)?;
        Ok(round)
    }
}

impl<T> Round<T> {
    /// Sends the order to the workers in a range that have not completed the round.
    fn order(&self, driver: &Driver, of: impl RangeBounds<usize>) -> Result<()> {
        let made = self.made.iter().enumerate();
        let missing = made.filter(|(worker, made)| made.is_none() && of.contains(worker));
        let missing: Vec<usize> = missing.map(|(worker, _)| worker).collect();
        driver.order(&missing, self.order)
    }
}

/// Returns the next message from a worker, or `None` if none arrives in time.
fn next_message<T: Message>(
    driver: &Driver,
    reader: &mut Option<Reader>,
    layouts: &Layouts,
) -> Result<Option<WorkerMessage<T>>> {
    let Some(FromWorker { worker, event, .. }) = driver.next(reader)? else { return Ok(None) };
    match event {
        WorkerEvent::Produced { round, items } => {
            let items = items.iter().map(|bytes| from_bytes("a result", bytes, layouts));
            Ok(Some(WorkerMessage::Produced { worker, round, items: items.collect::<Result<_>>()? }))
        }
        WorkerEvent::Failed(text) => Err(RlError::Worker { worker, text }),
        WorkerEvent::Joined { .. } => Ok(Some(WorkerMessage::Joined { worker })),
        WorkerEvent::Left => Ok(None),
    }
}

impl<T: Message> Pull<Result<Vec<T>>> for Rounds<T> {
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<Result<Vec<T>>> {
        match self.poll().transpose() {
            Some(item) => Poll::Ready(Some(Ok(Tagged { item, source: None }))),
            None => poll_again(turn),
        }
    }
}

struct ArrivalOrder {
    driver: Arc<Driver>,
    layouts: Layouts,
    reader: Option<Reader>,
}

impl<T: Message> Pull<Result<Vec<T>>> for ArrivalOrder {
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<Result<Vec<T>>> {
        match next_message(&self.driver, &mut self.reader, &self.layouts) {
            Ok(Some(WorkerMessage::Produced { worker, items, .. })) => {
                Poll::Ready(Some(Ok(Tagged { item: Ok(items), source: Some(Source(worker)) })))
            }
            Ok(Some(WorkerMessage::Joined { .. }) | None) => poll_again(turn),
            Err(error) => Poll::Ready(Some(Ok(Tagged { item: Err(error), source: None }))),
        }
    }
}

/// Returns the index of a worker in a round.
fn place(worker: u32) -> usize {
    usize::try_from(worker).unwrap_or(usize::MAX)
}

/// Yields to other operators, then polls again, since nothing arrived during the wait.
fn poll_again<T>(turn: &mut Turn<'_>) -> Polled<T> {
    turn.wake_at(Instant::now());
    Poll::Pending
}

#[cfg(test)]
mod tests {
    use relive_env::Environment;
    use relive_tensor::Tensor;

    use super::*;
    use crate::remote::driver::tests::driver;
    use crate::tables::orders;
    use crate::tables::results::Results;
    use crate::{Acted, Weights};

    #[test]
    fn a_joining_worker_gets_the_order_its_predecessor_lost() {
        let driver = Arc::new(driver());
        driver.weights.publish(Weights::new(1, vec![("w".to_owned(), Tensor::scalar(1_i64))]));
        let spec = relive_env::make("catch/0", 1).unwrap().spec().clone();
        let layouts = Layouts { extras: spec.actions.clone(), spec };
        let mut rounds: Rounds<Vec<Acted>> =
            Rounds { driver: Arc::clone(&driver), layouts, reader: None, begun: None };
        assert!(rounds.poll().unwrap().is_none());
        let order = || {
            let mut orders = orders::Orders::of(&driver.client, 0).unwrap();
            orders.next_within(Duration::from_millis(200)).unwrap()
        };
        let lost = order().unwrap();
        assert_eq!(order(), None, "it was given once");
        // From here on, the clock does not repeat the order.
        rounds.begun.as_mut().unwrap().ordered += Duration::from_hours(1);
        let joined =
            FromWorker { worker: 0, is_on_node: true, event: WorkerEvent::Joined { is_replacement: true } };
        Results::new(&driver.client).unwrap().put(joined, || true).unwrap();
        // A single wait may be too short.
        while driver.members.lock().is_empty() {
            assert!(rounds.poll().unwrap().is_none());
        }
        assert_eq!(order(), Some(lost));
    }
}
