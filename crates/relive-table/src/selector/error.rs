//! The errors for priorities.

use thiserror::Error;

use super::kind::SelectorKind;

/// The reason why a selector refuses a priority. The selector has not changed.
#[derive(Clone, Copy, Debug, Error, PartialEq)]
pub enum PriorityError {
    /// The priority is NaN, which has no order and no weight.
    #[error("the priority is NaN, which a {selector} selector cannot order; give a number")]
    Nan {
        /// The selector that refuses it.
        selector: SelectorKind,
    },
    /// The priority is negative, and therefore has no weight.
    #[error("the priority {priority:?} is negative, but a {selector} selector needs 0 or more")]
    Negative {
        /// The selector that refuses it.
        selector: SelectorKind,
        /// The priority.
        priority: f64,
    },
    /// The priority is infinite, so that no other item could be chosen.
    #[error("the priority is infinite, but a {selector} selector needs a finite number")]
    Infinite {
        /// The selector that refuses it.
        selector: SelectorKind,
    },
    /// The priority is finite, but its weight is not.
    #[error(
        "the priority {priority:?} raised to the exponent of a {selector} selector is infinite; give a priority closer to 1"
    )]
    Weight {
        /// The selector that refuses it.
        selector: SelectorKind,
        /// The priority.
        priority: f64,
    },
    /// The weight is finite, but the sum of all weights would be too large.
    #[error(
        "the weight {weight:?} of priority {priority:?} plus the other items' {others:?} exceeds the limit \
         {limit:?} of a {selector} selector; scale the priorities down"
    )]
    Total {
        /// The selector that refuses it.
        selector: SelectorKind,
        /// The priority.
        priority: f64,
        /// Its weight.
        weight: f64,
        /// The sum of the weights of all other items.
        others: f64,
        /// The largest sum, [`MAX_TOTAL_WEIGHT`](crate::selector::MAX_TOTAL_WEIGHT).
        limit: f64,
    },
}
