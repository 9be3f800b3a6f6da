//! Selectors, as samplers and removers.

use relive_table::SelectorKind;
use serde::Deserialize;

/// `"uniform"`, or `{ prioritized = 0.6 }`.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SelectorEntry {
    Uniform,
    WithoutReplacement,
    Fifo,
    Lifo,
    MinHeap,
    MaxHeap,
    Prioritized(f64),
}

impl From<SelectorEntry> for SelectorKind {
    fn from(entry: SelectorEntry) -> Self {
        match entry {
            SelectorEntry::Uniform => Self::Uniform,
            SelectorEntry::WithoutReplacement => Self::WithoutReplacement,
            SelectorEntry::Fifo => Self::Fifo,
            SelectorEntry::Lifo => Self::Lifo,
            SelectorEntry::MinHeap => Self::MinHeap,
            SelectorEntry::MaxHeap => Self::MaxHeap,
            SelectorEntry::Prioritized(exponent) => Self::Prioritized { exponent },
        }
    }
}
