//! Selectors: which item is sampled next, and which one leaves a full table.
//!
//! A selector speaks of *slots*, the small numbers under which a table keeps its items, so that no operation
//! needs a hash look-up. All kinds obey one contract, [`Select`]; the conformance suite in
//! `relive_testkit::selector` holds each of them to it.

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
