//! The closed set of selectors, as configuration.

use core::fmt;

/// How a table chooses an item, for sampling or for removal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SelectorKind {
    /// The oldest item. Updates do not change the order.
    Fifo,
    /// The newest item. Updates do not change the order.
    Lifo,
    /// Any item, each with probability 1 / size.
    Uniform,
    /// Any item of those that were not chosen in the present epoch, each with probability 1 / their number. Once all
    /// were chosen a new epoch begins. Items that come during an epoch join it. As a remover it is the same as
    /// `Uniform`.
    WithoutReplacement,
    /// The item of lowest priority; of equal ones that which was inserted or updated longest ago.
    MinHeap,
    /// The item of highest priority; of equal ones that which was inserted or updated longest ago.
    MaxHeap,
    /// Any item, with probability proportional to `priority.powf(exponent)`
    /// (Schaul et al. 2015, <https://arxiv.org/abs/1511.05952>, equation 1).
    ///
    /// An item of priority 0 has weight 0 under every exponent and is never chosen while another has a
    /// positive weight. If all weights are 0 the choice is uniform.
    Prioritized {
        /// The power to which priorities are raised; finite, may be negative.
        exponent: f64,
    },
}

impl SelectorKind {
    /// Whether two tables with the same items always make the same choice.
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
