#![doc = include_str!("../docs/lib.md")]

mod checkpoint;
mod duplicate;
mod error;
mod flow;
mod graph;
mod item;
mod metrics;
mod monitor;
mod node;
mod ops;
mod par;
mod pull;
mod ratio;
mod renumbered;
mod shared_waker;
mod show;
mod step;
mod sync;
mod union;
mod waits;

pub use checkpoint::{Checkpoint, GraphState, OperatorState};
pub use duplicate::{Lead, WhenFull};
pub use error::{ErrorKind, FlowError, Result};
pub use flow::{Flow, IntoIter};
pub use item::{Source, Tagged};
pub use metrics::{Metrics, Timer};
pub use monitor::{Monitor, OperatorStatus};
pub use ops::Context;
pub use par::{Around, Async, Executor, OnFailure, ParFlow, Resubmit, Shard};
pub use pull::{Polled, Pull, Turn};
pub use ratio::Ratio;
pub use step::Stepped;
pub use union::{Order, Weight};
