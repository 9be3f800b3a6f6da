//! What a budget is divided into.

/// Where chunks begin and end to leave memory, and where writers wait.
///
/// The budget is what the process may take for chunks, which is more than the bytes of their frames: allocators round
/// sizes up, and keep what was freed a moment ago; chunks still come in while others are being written. A process with
/// 1.9 GB of frames of 40 kB, and 200,000 chunks in all, had 2.2 GB. So chunks begin to leave well before the budget is
/// used up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Marks {
    /// From here on, chunks leave.
    pub(crate) begin_bytes: u64,
    /// Here, no more leave. What lies between keeps the hand from starting for every insert.
    pub(crate) end_bytes: u64,
    /// From here on, writers wait, and whoever reads chunks back makes all of the room for them.
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
