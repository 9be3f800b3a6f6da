//! The configuration of a selector.

use core::fmt;

/// The rule by which a table chooses an item to sample or to evict.
///
/// | Kind | Chooses | Probability |
/// |---|---|---|
/// | [`Fifo`](Self::Fifo) | the oldest item | 1 |
/// | [`Lifo`](Self::Lifo) | the newest item | 1 |
/// | [`Uniform`](Self::Uniform) | any item | 1 / size |
/// | [`WithoutReplacement`](Self::WithoutReplacement) | any item not yet chosen in this epoch | 1 / their number |
/// | [`MinHeap`](Self::MinHeap), [`MaxHeap`](Self::MaxHeap) | the item with the lowest or highest priority | 1 |
/// | [`Prioritized`](Self::Prioritized) | any item | priority^exponent / sum |
///
/// # Example
///
/// ```
/// use rand_xoshiro::{Xoshiro256PlusPlus, rand_core::SeedableRng};
/// use relive_table::{Select, Selector, SelectorKind};
///
/// let mut selector = Selector::new(SelectorKind::Prioritized { exponent: 2.0 });
/// for (slot, priority) in [(0, 1.0), (1, 3.0)] {
///     let rank = selector.admit(None, priority)?;
///     selector.insert(slot, rank);
/// }
/// let pick = selector.pick(&mut Xoshiro256PlusPlus::seed_from_u64(1)).expect("two items");
/// assert_eq!(pick.probability, if pick.slot == 1 { 0.9 } else { 0.1 });
/// # Ok::<(), relive_table::PriorityError>(())
/// ```
///
/// # Priorities
///
/// `Fifo`, `Lifo`, `Uniform` and `WithoutReplacement` ignore priorities and accept any value. The heaps refuse NaN.
/// `Prioritized` refuses priorities that are negative, NaN or infinite, and priorities with weights beyond the range of
/// `f64`. A refused insert or update fails with [`PriorityError`](crate::PriorityError) and changes nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SelectorKind {
    /// The oldest item. Updates do not change the order.
    Fifo,
    /// The newest item. Updates do not change the order.
    Lifo,
    /// Any item, each with probability 1 / size.
    Uniform,
    /// Any item that has not been chosen in this epoch, with equal probability. A new epoch begins once all items have
    /// been chosen. New items join the current epoch. As a remover, this kind is equivalent to `Uniform`.
    WithoutReplacement,
    /// The item with the lowest priority; among equal priorities, the item that was inserted or updated longest ago.
    MinHeap,
    /// The item with the highest priority; among equal priorities, the item that was inserted or updated longest ago.
    MaxHeap,
    /// Any item, with probability proportional to `priority.powf(exponent)` (Schaul et al. 2015,
    /// <https://arxiv.org/abs/1511.05952>, equation 1).
    ///
    /// The weight of priority 0 is 0, regardless of the exponent. An item with weight 0 is never chosen while another
    /// item has a positive weight. If all weights are 0, the choice is uniform.
    Prioritized {
        /// The power to which priorities are raised. It is finite and may be negative.
        exponent: f64,
    },
}

impl SelectorKind {
    /// Returns whether two tables with the same items always choose the same item.
    pub fn is_deterministic(&self) -> bool {
        match self {
            Self::Fifo | Self::Lifo | Self::MinHeap | Self::MaxHeap => true,
            Self::Uniform | Self::WithoutReplacement | Self::Prioritized { .. } => false,
        }
    }
}

impl fmt::Display for SelectorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fifo => f.write_str("Fifo"),
            Self::Lifo => f.write_str("Lifo"),
            Self::Uniform => f.write_str("Uniform"),
            Self::WithoutReplacement => f.write_str("WithoutReplacement"),
            Self::MinHeap => f.write_str("MinHeap"),
            Self::MaxHeap => f.write_str("MaxHeap"),
            Self::Prioritized { exponent } => write!(f, "Prioritized({exponent})"),
        }
    }
}
