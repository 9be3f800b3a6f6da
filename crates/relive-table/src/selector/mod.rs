//! Selectors choose the item to sample next, and the item to evict from a full table.
//!
//! A selector uses *slots*, the small numbers under which a table stores its items, so that no operation needs a hash
//! lookup. All kinds implement [`Select`]; the conformance suite in `relive_testkit::selector` tests each of them.
//! `CONTRIBUTING.md` ("How behavior is tested") lists the files to change for a new kind.

mod any;
mod contract;
mod dense;
mod error;
mod fifo;
mod heap;
mod kind;
mod lifo;
mod order;
mod prioritized;
mod sum_tree;
mod uniform;
mod without_replacement;

pub use any::Selector;
pub use contract::{MAX_SIDE_BY_SIDE, Pick, Rank, Ranks, Select, Slot};
pub use error::PriorityError;
pub use fifo::Fifo;
pub use heap::{Direction, Heap};
pub use kind::SelectorKind;
pub use lifo::Lifo;
pub use prioritized::{MAX_TOTAL_WEIGHT, Prioritized};
pub use uniform::Uniform;
pub use without_replacement::WithoutReplacement;
