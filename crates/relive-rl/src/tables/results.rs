//! The results that workers send to the driver of the run.

use std::time::Duration;

use relive_client::blocking::{Client, Sampler, TrajectoryWriter};
use relive_client::{ErrorKind, Nest, SamplerOptions, TrajectoryWriterOptions};
use relive_env::State;
use relive_table::TableConfig;

use super::item;
use crate::{Result, RlError, state};

/// The queue of results.
pub(crate) const TABLE: &str = "results";

/// The maximum number of unread results, beyond which workers wait.
const MAX_RESULTS: u32 = 16;

/// The number of results in transit to the driver, in addition to the results in the queue.
const IN_FLIGHT: usize = 4;

/// How long one wait for room lasts before a worker checks whether the run continues.
pub(crate) const TIMEOUT: Duration = Duration::from_millis(200);

pub(crate) fn table() -> TableConfig {
    TableConfig::queue(TABLE, MAX_RESULTS)
}

/// A message from a worker to the driver of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FromWorker {
    pub(crate) worker: u32,
    /// Whether the worker belongs to a node, which the driver has assigned the worker's number.
    pub(crate) is_on_node: bool,
    pub(crate) event: WorkerEvent,
}

/// The kinds of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WorkerEvent {
    /// The worker has joined the run. `is_replacement`: this worker replaces an earlier one with the same number, which has
    /// therefore ended.
    Joined { is_replacement: bool },
    /// Items of the worker's stream: one per round if the plan has rounds, otherwise those produced within a short
    /// time.
    Produced { round: u64, items: Vec<Vec<u8>> },
    /// The worker has failed; the text is meant for people.
    Failed(String),
    /// The worker has noticed that the run is over.
    Left,
}

impl FromWorker {
    fn into_bytes(self) -> Vec<u8> {
        let (mut kind, mut round, mut parts) = match self.event {
            WorkerEvent::Joined { is_replacement: false } => (0_u8, 0, Vec::new()),
            WorkerEvent::Produced { round, items } => (1, round, items),
            WorkerEvent::Failed(text) => (2, 0, vec![text.into_bytes()]),
            WorkerEvent::Left => (3, 0, Vec::new()),
            WorkerEvent::Joined { is_replacement: true } => (4, 0, Vec::new()),
        };
        let mut from = (self.worker, self.is_on_node);
        state::save(|state| visit(state, &mut from, &mut kind, &mut round, &mut parts))
    }

    fn from_bytes(bytes: &[u8]) -> Result<FromWorker> {
        let (mut from, mut kind, mut round, mut parts) = ((0, false), 0, 0, Vec::new());
        state::restore(WHAT, bytes, |state| visit(state, &mut from, &mut kind, &mut round, &mut parts))?;
        let event = match kind {
            0 => WorkerEvent::Joined { is_replacement: false },
            1 => WorkerEvent::Produced { round, items: parts },
            2 => WorkerEvent::Failed(String::from_utf8_lossy(&parts.concat()).into_owned()),
            3 => WorkerEvent::Left,
            4 => WorkerEvent::Joined { is_replacement: true },
            kind => return Err(RlError::state(WHAT, format_args!("it has the unknown kind {kind}"))),
        };
        Ok(FromWorker { worker: from.0, is_on_node: from.1, event })
    }
}

fn visit(
    state: &mut State<'_>,
    (worker, is_on_node): &mut (u32, bool),
    kind: &mut u8,
    round: &mut u64,
    parts: &mut Vec<Vec<u8>>,
) {
    state.field(worker);
    state.field(is_on_node);
    state.field(kind);
    state.field(round);
    state.list(parts, Vec::new, |state, part| {
        state.bytes(part);
    });
}

const WHAT: &str = "a result";

/// Writes results to the queue.
pub(crate) struct Results {
    writer: TrajectoryWriter,
}

impl Results {
    pub(crate) fn new(client: &Client) -> Result<Results> {
        let writer = client.trajectory_writer(TrajectoryWriterOptions::new(1).chunk_length(1))?;
        Ok(Results { writer })
    }

    /// Writes a message. Calls `should_continue` periodically while there is no room. Returns whether the message was
    /// written.
    pub(crate) fn put(&mut self, message: FromWorker, should_continue: impl Fn() -> bool) -> Result<bool> {
        // A string has no fixed length, so the message is a tensor of bytes.
        self.writer.append(&Nest::dict([("result", item::text_leaf(message.into_bytes(), WHAT)?)]))?;
        let column = self.writer.history().column("result")?.step(-1)?;
        let item = Nest::dict([("result", Nest::Leaf(column))]);
        if !until(&should_continue, || self.writer.create_item(TABLE, 1.0, item.clone()))? {
            return Ok(false);
        }
        // A result must be in the queue before the next one is produced: the queue bounds how far a worker works ahead.
        until(&should_continue, || self.writer.flush(TIMEOUT))
    }
}

/// Repeats a call while there is no room and the run continues. Returns whether it succeeded.
fn until<T>(
    should_continue: &impl Fn() -> bool,
    mut call: impl FnMut() -> relive_client::Result<T>,
) -> Result<bool> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Timeout && should_continue() => {}
            Err(error) if error.kind() == ErrorKind::Timeout => return Ok(false),
            done => return Ok(done.map(|_| true)?),
        }
    }
}

/// Reads results from the queue.
pub(crate) struct Reader(Sampler);

impl Reader {
    pub(crate) fn new(client: &Client) -> Result<Reader> {
        let options = SamplerOptions::default().num_workers(1).max_in_flight_samples_per_worker(IN_FLIGHT);
        Ok(Reader(client.sampler(TABLE, options)?))
    }

    /// Returns the next message, or `None` if none arrives in time.
    ///
    /// # Errors
    /// The server is lost, or the item is not a result.
    pub(crate) fn next_within(&mut self, timeout: Duration) -> Result<Option<FromWorker>> {
        let Some(columns) = item::next(&mut self.0, timeout)? else { return Ok(None) };
        FromWorker::from_bytes(item::text(&columns, WHAT)?).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use relive_engine::Engine;

    use super::*;

    #[test]
    fn worker_events_arrive_in_order_and_wait_for_room() {
        let client = Client::in_process(Engine::builder().table(table()).build().unwrap()).unwrap();
        let actual = [
            WorkerEvent::Joined { is_replacement: false },
            WorkerEvent::Joined { is_replacement: true },
            WorkerEvent::Produced { round: 7, items: vec![vec![1, 2, 3], Vec::new()] },
            WorkerEvent::Failed("it has no wheels".to_owned()),
            WorkerEvent::Left,
        ];
        let actual = actual.map(|event| FromWorker { worker: 3, is_on_node: true, event });
        let mut results = Results::new(&client).unwrap();
        for actual in actual.clone() {
            assert!(results.put(actual, || true).unwrap());
        }
        let mut reader = Reader::new(&client).unwrap();
        for actual in actual {
            assert_eq!(reader.next_within(TIMEOUT).unwrap(), Some(actual));
        }
        assert_eq!(reader.next_within(Duration::ZERO).unwrap(), None);
        drop(reader);
        let left = FromWorker { worker: 0, is_on_node: false, event: WorkerEvent::Left };
        let written = (0..=MAX_RESULTS).filter(|_| results.put(left.clone(), || false).unwrap()).count();
        assert_eq!(u32::try_from(written), Ok(MAX_RESULTS), "the queue is full then");
    }
}
