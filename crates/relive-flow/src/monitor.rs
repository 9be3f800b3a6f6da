//! Observes a running graph.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::Flow;
use crate::graph::{self, Operator};
use crate::node::Node;

/// Observes a graph, even while another thread pulls from it. Clones are cheap.
///
/// ```
/// use std::task::Poll;
///
/// use relive_flow::{Flow, Polled, Pull, Turn};
///
/// struct Silent;
///
/// impl Pull<u32> for Silent {
///     fn poll_next(&mut self, _: &mut Turn<'_>) -> Polled<u32> {
///         Poll::Pending
///     }
/// }
///
/// let mut flow = Flow::from_pull("table", Silent).for_each(|number| number + 1);
/// let monitor = flow.monitor();
/// assert!(monitor.waiting().is_empty());
/// flow.step()?;
/// let [silent] = &monitor.waiting()[..] else { panic!("one operator waits") };
/// assert_eq!((silent.name.as_str(), silent.items, silent.errors), ("table", 0, 0));
/// # Ok::<(), relive_flow::FlowError>(())
/// ```
#[derive(Clone)]
pub struct Monitor(Arc<Node>);

/// An operator of a graph. The corresponding operators of several shards are listed as one. The counts of a restarted
/// shard start again from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorStatus {
    /// The operator's name.
    pub name: String,
    /// The operators from which this operator pulls, as indices into [`Monitor::operators`].
    pub inputs: Vec<usize>,
    /// The number of the operator's shards, or `None` if the operator runs in the pulling thread.
    pub shards: Option<usize>,
    /// The number of items that the operator has produced.
    pub items: u64,
    /// The total size of those items in bytes, or `None` unless [`Flow::measured`] defines their sizes.
    pub bytes: Option<u64>,
    /// The number of items in the operator's queue, without errors, or `None` for operators without a queue. `prefetch`,
    /// `gather_async`, `gather_sync` and copies have a queue. If shards fail and restart, the number is too low.
    pub queued: Option<u64>,
    /// The number of items that the operator has dropped, or `None` for operators that never drop items. Copies with
    /// [`WhenFull::DropOldest`](crate::WhenFull::DropOldest) drop items.
    pub dropped: Option<u64>,
    /// The number of errors that the operator has produced.
    pub errors: u64,
    /// How long a pull has waited in the operator; for shards, the longest wait. `None` if no pull is waiting.
    pub waits: Option<Duration>,
}

impl Monitor {
    /// Returns all operators, each after the operators from which it pulls. The operators of a shard exist once the
    /// shard has started, at the first pull.
    #[must_use]
    pub fn operators(&self) -> Vec<OperatorStatus> {
        graph::operators(&self.0).into_iter().map(status).collect()
    }

    /// Returns all operators as JSON: a list of objects with the fields of [`OperatorStatus`], times in seconds, `null`
    /// for `None`.
    ///
    /// ```
    /// use relive_flow::Flow;
    ///
    /// let mut flow = Flow::from_iter("numbers", 0..9).batch(2);
    /// flow.step()?;
    /// assert_eq!(flow.monitor().to_json(), r#"[
    /// {"name":"numbers","inputs":[],"shards":null,"items":2,"bytes":null,"queued":null,"dropped":null,"errors":0,"waits_s":null},
    /// {"name":"batch(2)","inputs":[0],"shards":null,"items":1,"bytes":null,"queued":null,"dropped":null,"errors":0,"waits_s":null}
    /// ]"#);
    /// # Ok::<(), relive_flow::FlowError>(())
    /// ```
    #[must_use]
    pub fn to_json(&self) -> String {
        let operators: Vec<String> = self.operators().iter().map(json).collect();
        format!("[\n{}\n]", operators.join(",\n"))
    }

    /// Returns the operators that block the graph: the operators that have no item although their inputs are not
    /// waiting.
    #[must_use]
    pub fn waiting(&self) -> Vec<OperatorStatus> {
        let operators = self.operators();
        let waits = |number: &usize| operators.get(*number).is_some_and(|operator| operator.waits.is_some());
        let is_cause =
            |operator: &&OperatorStatus| operator.waits.is_some() && !operator.inputs.iter().any(waits);
        operators.iter().filter(is_cause).cloned().collect()
    }
}

fn status(operator: Operator) -> OperatorStatus {
    OperatorStatus {
        name: operator.name().to_string(),
        shards: operator.shards(),
        items: operator.items(),
        bytes: operator.bytes(),
        queued: operator.queued(),
        dropped: operator.dropped(),
        errors: operator.errors(),
        waits: operator.waits(),
        inputs: operator.inputs,
    }
}

fn json(status: &OperatorStatus) -> String {
    let OperatorStatus { name, inputs, shards, items, bytes, queued, dropped, errors, waits } = status;
    let name = quoted(name);
    let or_null = |number: Option<String>| number.unwrap_or("null".to_owned());
    let shards = or_null(shards.map(|shards| shards.to_string()));
    let [bytes, queued, dropped] =
        [bytes, queued, dropped].map(|number| or_null(number.map(|number| number.to_string())));
    let waits = or_null(waits.map(|waits| waits.as_secs_f64().to_string()));
    let inputs: Vec<String> = inputs.iter().map(ToString::to_string).collect();
    let inputs = inputs.join(",");
    format!(
        r#"{{"name":{name},"inputs":[{inputs}],"shards":{shards},"items":{items},"bytes":{bytes},"queued":{queued},"dropped":{dropped},"errors":{errors},"waits_s":{waits}}}"#
    )
}

/// Returns a text as a JSON string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            letter if letter.is_control() => {
                let mut units = [0; 2];
                let units = letter.encode_utf16(&mut units).iter();
                units.for_each(|unit| quoted.push_str(&format!("\\u{unit:04x}")));
            }
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

impl fmt::Debug for Monitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Monitor").field(&self.operators()).finish()
    }
}

impl<T> Flow<T> {
    /// Creates a monitor of the graph, for use in any thread.
    #[must_use]
    pub fn monitor(&self) -> Monitor {
        Monitor(Arc::clone(&self.node))
    }
}
