//! The parts of a buffer that pass through the ring, and their order.

use std::ops::Range;

/// How the arrays of all members are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduction {
    /// Their sum.
    Sum,
    /// Their mean.
    Mean,
}

/// How received bytes are combined with a member's own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Combine {
    /// Replace one's own.
    Copy,
    /// Add them as float32.
    Add,
    /// Add them as float32, and multiply the result, which is the sum over all members, by this factor.
    AddLast(f32),
}

/// The parts that a member sends to the next member and receives from the preceding one. Both are streams: each part
/// begins as soon as its bytes are available.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Schedule {
    /// The parts to send.
    pub(super) sends: Vec<Range<usize>>,
    /// The parts to receive.
    pub(super) receives: Vec<(Range<usize>, Combine)>,
    /// The number of parts to send that are available from the beginning. Each later part is the received part whose
    /// index is smaller by this number.
    pub(super) own: usize,
}

/// Returns part `index` when `len` numbers are divided into `count` nearly equal parts.
fn part(index: u32, count: u32, len: usize) -> Range<usize> {
    let bound = |index: u32| (len as u128 * u128::from(index) / u128::from(count.max(1))) as usize;
    bound(index)..bound(index + 1)
}

impl Schedule {
    /// Sums `len` float32 numbers: each part is summed while it passes through the ring, and the sum is then copied in
    /// a second pass.
    #[expect(clippy::cast_precision_loss, reason = "members are few")]
    pub(super) fn all_reduce(rank: u32, ranks: u32, len: usize, reduction: Reduction) -> Schedule {
        let scale = match reduction {
            Reduction::Sum => 1.0,
            Reduction::Mean => 1.0 / ranks as f32,
        };
        let of = |before: u32| {
            let numbers = part((rank + 2 * ranks - before) % ranks, ranks, len);
            4 * numbers.start..4 * numbers.end
        };
        let hops = 2 * (ranks - 1);
        let combine = |hop: u32| match (hop + 2).cmp(&ranks) {
            std::cmp::Ordering::Less => Combine::Add,
            std::cmp::Ordering::Equal => Combine::AddLast(scale),
            std::cmp::Ordering::Greater => Combine::Copy,
        };
        Schedule {
            sends: (0..hops).map(of).collect(),
            receives: (0..hops).map(|hop| (of(hop + 1), combine(hop))).collect(),
            own: 1,
        }
    }

    /// Gathers one slot per member: all members receive all slots.
    pub(super) fn gather(rank: u32, ranks: u32, slot: usize) -> Schedule {
        let of = |before: u32| {
            let index = ((rank + ranks - before) % ranks) as usize;
            index * slot..(index + 1) * slot
        };
        Schedule {
            sends: (0..ranks - 1).map(of).collect(),
            receives: (0..ranks - 1).map(|hop| (of(hop + 1), Combine::Copy)).collect(),
            own: 1,
        }
    }

    /// Broadcasts the bytes of member 0: each member forwards the bytes that it receives.
    pub(super) fn broadcast(rank: u32, ranks: u32, len: usize) -> Schedule {
        let whole = 0..len;
        Schedule {
            sends: if rank + 1 < ranks { vec![whole.clone()] } else { Vec::new() },
            receives: if rank > 0 { vec![(whole, Combine::Copy)] } else { Vec::new() },
            own: usize::from(rank == 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the schedules of all members on numbers, hop by hop.
    fn reduced(mut members: Vec<Vec<f32>>, reduction: Reduction) -> Vec<Vec<f32>> {
        let (ranks, len) = (u32::try_from(members.len()).unwrap(), members[0].len());
        let schedules: Vec<_> =
            (0..ranks).map(|rank| Schedule::all_reduce(rank, ranks, len, reduction)).collect();
        for hop in 0..schedules[0].sends.len() {
            let sent: Vec<Vec<f32>> = schedules
                .iter()
                .zip(&members)
                .map(|(schedule, own)| {
                    let part = &schedule.sends[hop];
                    own[part.start / 4..part.end / 4].to_vec()
                })
                .collect();
            for (rank, own) in members.iter_mut().enumerate() {
                let (part, combine) = &schedules[rank].receives[hop];
                let received = &sent[(rank + sent.len() - 1) % sent.len()];
                let own = &mut own[part.start / 4..part.end / 4];
                assert_eq!(own.len(), received.len());
                for (own, received) in own.iter_mut().zip(received) {
                    *own = match combine {
                        Combine::Copy => *received,
                        Combine::Add => *received + *own,
                        Combine::AddLast(scale) => (*received + *own) * scale,
                    };
                }
            }
        }
        members
    }

    #[test]
    fn all_members_get_the_same_sum_of_any_length() {
        for ranks in 1..=5_u16 {
            for len in [0_u16, 1, 3, 7, 64] {
                let members =
                    (0..ranks).map(|rank| (0..len).map(|n| f32::from(rank) + f32::from(n)).collect());
                let all = reduced(members.collect(), Reduction::Sum);
                let expected: Vec<f32> =
                    (0..len).map(|n| (0..ranks).map(|rank| f32::from(rank) + f32::from(n)).sum()).collect();
                assert!(all.iter().all(|own| *own == expected), "{ranks} {len}: {all:?}");
            }
        }
        let all = reduced(vec![vec![1.0; 3], vec![2.0; 3], vec![6.0; 3]], Reduction::Mean);
        assert!(all.iter().flatten().all(|mean| *mean == 3.0), "{all:?}");
    }

    #[test]
    fn each_rank_sends_only_received_or_own_data() {
        for schedule in [
            Schedule::all_reduce(2, 4, 10, Reduction::Sum),
            Schedule::gather(1, 3, 8),
            Schedule::broadcast(1, 3, 5),
        ] {
            for (index, part) in schedule.sends.iter().enumerate().skip(schedule.own) {
                assert_eq!(*part, schedule.receives[index - schedule.own].0);
            }
        }
    }
}
