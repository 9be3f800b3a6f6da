//! The thresholds within a budget.

/// The sizes at which chunks start and stop moving to disk, and at which writers wait.
///
/// The budget is the memory that the process may use for chunks. This is more than the bytes of their frames:
/// allocators round sizes up and retain freed memory, and chunks arrive while others are being written. For example, a
/// process with 1.9 GB of frames of 40 kB each and a total of 200,000 chunks used 2.2 GB. Chunks therefore start to
/// move well before the budget is used up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Marks {
    /// The size above which chunks move to disk.
    pub(crate) begin_bytes: u64,
    /// The size at which chunks stop moving. The gap prevents every insert from starting the clock hand.
    pub(crate) end_bytes: u64,
    /// The size above which writers wait, and above which reads from disk free all the memory that they need.
    pub(crate) gate_bytes: u64,
}

const BEGIN_SIXTEENTHS: u64 = 14;
const END_SIXTEENTHS: u64 = 13;
const GATE_SIXTEENTHS: u64 = 15;

impl Marks {
    pub(crate) fn of(budget_bytes: u64) -> Self {
        let part = |sixteenths| {
            let part = u128::from(budget_bytes) * u128::from(sixteenths) / 16;
            u64::try_from(part).unwrap_or(budget_bytes)
        };
        Self {
            begin_bytes: part(BEGIN_SIXTEENTHS),
            end_bytes: part(END_SIXTEENTHS),
            gate_bytes: part(GATE_SIXTEENTHS),
        }
    }
}
