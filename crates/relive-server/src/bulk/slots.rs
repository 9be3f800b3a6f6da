//! The pieces of memory that a connection shares with its client. Each holds one batch at a time.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;

use relive_transport::shared::SharedMemory;

use crate::limits::{MAX_SHARED_BYTES_PER_CONNECTION, MAX_SHARED_PIECES_PER_CONNECTION};

/// The pieces, either in use by the client or free.
#[derive(Debug, Default)]
pub(super) struct Slots {
    free: HashMap<u32, SharedMemory>,
    /// Pieces that the client is using; the server must not write to them until the client returns them.
    lent: HashMap<u32, SharedMemory>,
    next: u32,
    bytes: usize,
    /// Dropped pieces that the client has not been notified about.
    dropped: Vec<u32>,
}

/// A piece to which a batch is written.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) number: u32,
    pub(super) memory: SharedMemory,
    /// The piece's descriptor, if the client has never received it.
    pub(super) descriptor: Option<OwnedFd>,
}

/// The sizes of pieces are multiples of this. New pieces are therefore usually slightly larger than their first batch,
/// so that later batches fit.
const GRANULARITY: usize = 64 << 10;

/// A free piece that exceeds the needed size by more than this factor is kept for larger batches.
const MAX_WASTE_FACTOR: usize = 4;

impl Slots {
    /// Takes a piece of at least `len` bytes. Returns `None` if the client holds too many pieces.
    pub(super) fn take(&mut self, len: usize) -> io::Result<Option<Slot>> {
        let fits = |memory: &SharedMemory| {
            memory.len() >= len && memory.len() / MAX_WASTE_FACTOR <= len.max(GRANULARITY)
        };
        let best = self.free.iter().filter(|(_, memory)| fits(memory)).min_by_key(|(_, memory)| memory.len());
        if let Some(number) = best.map(|(&number, _)| number)
            && let Some(memory) = self.free.remove(&number)
        {
            return Ok(Some(Slot { number, memory, descriptor: None }));
        }
        let size = len.next_multiple_of(GRANULARITY);
        while self.bytes.saturating_add(size) > MAX_SHARED_BYTES_PER_CONNECTION
            || self.lent.len() + self.free.len() >= MAX_SHARED_PIECES_PER_CONNECTION
        {
            // None of the free pieces is suitable, so one of them is dropped.
            let Some(&number) = self.free.keys().next() else { return Ok(None) };
            self.bytes -= self.free.remove(&number).map_or(0, |memory| memory.len());
            self.dropped.push(number);
        }
        let (memory, descriptor) = SharedMemory::create(size)?;
        self.bytes += size;
        self.next += 1;
        Ok(Some(Slot { number: self.next, memory, descriptor: Some(descriptor) }))
    }

    /// Puts back a piece that was not sent to the client.
    pub(super) fn put_back(&mut self, slot: Slot) {
        match slot.descriptor {
            None => drop(self.free.insert(slot.number, slot.memory)),
            // Without the descriptor, the client cannot use the piece, so the client is not notified that it is
            // dropped.
            Some(_) => self.bytes -= slot.memory.len(),
        }
    }

    /// Records that the client has a piece.
    pub(super) fn lend(&mut self, slot: Slot) {
        self.lent.insert(slot.number, slot.memory);
    }

    /// Takes a piece back. Returns whether the client had it.
    pub(super) fn give_back(&mut self, number: u32) -> bool {
        let memory = self.lent.remove(&number);
        let had = memory.is_some();
        self.free.extend(memory.map(|memory| (number, memory)));
        had
    }

    /// Abandons a piece that the client keeps permanently. Returns whether the client had it.
    pub(super) fn abandon(&mut self, number: u32) -> bool {
        let memory = self.lent.remove(&number);
        self.bytes -= memory.as_ref().map_or(0, SharedMemory::len);
        memory.is_some()
    }

    /// Returns the pieces dropped since the last call.
    pub(super) fn take_dropped(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_reused_but_never_shared() {
        let mut slots = Slots::default();
        let first = slots.take(100).unwrap().unwrap();
        assert!(first.descriptor.is_some() && first.memory.len() >= 100);
        let number = first.number;
        slots.lend(first);
        let second = slots.take(100).unwrap().unwrap();
        assert_ne!(second.number, number);
        assert!(!slots.give_back(second.number), "it was never lent");
        assert!(slots.give_back(number));
        assert!(!slots.give_back(number), "it is here");
        let again = slots.take(100).unwrap().unwrap();
        assert_eq!((again.number, again.descriptor.is_some()), (number, false));
    }

    #[test]
    fn unused_pieces_are_returned() {
        let mut slots = Slots::default();
        let new = slots.take(100).unwrap().unwrap();
        let number = new.number;
        slots.put_back(new);
        let mut second = slots.take(100).unwrap().unwrap();
        assert!(
            second.number != number && second.descriptor.is_some(),
            "the client never received the first slot"
        );
        let number = second.number;
        second.descriptor = None;
        slots.lend(second);
        assert!(slots.give_back(number));
        let again = slots.take(100).unwrap().unwrap();
        slots.put_back(again);
        assert_eq!(slots.take(100).unwrap().unwrap().number, number);
    }

    #[test]
    fn pieces_a_client_keeps_are_not_reused_and_do_not_count() {
        let mut slots = Slots::default();
        let first = slots.take(MAX_SHARED_BYTES_PER_CONNECTION).unwrap().unwrap();
        let number = first.number;
        slots.lend(first);
        assert!(slots.take(1).unwrap().is_none());
        assert!(slots.abandon(number));
        assert!(!slots.abandon(number) && !slots.give_back(number));
        assert_ne!(slots.take(1).unwrap().unwrap().number, number);
    }

    #[test]
    fn the_number_of_shared_pieces_is_limited() {
        let mut slots = Slots::default();
        for _ in 0..MAX_SHARED_PIECES_PER_CONNECTION {
            let slot = slots.take(1).unwrap().unwrap();
            slots.lend(slot);
        }
        assert!(slots.take(1).unwrap().is_none());
    }

    #[test]
    fn memory_kept_by_a_client_is_bounded() {
        let mut slots = Slots::default();
        let half = MAX_SHARED_BYTES_PER_CONNECTION / 2;
        let (first, second) = (slots.take(half).unwrap().unwrap(), slots.take(half).unwrap().unwrap());
        let number = first.number;
        slots.lend(first);
        slots.lend(second);
        assert!(slots.take(1).unwrap().is_none(), "the client has all of it");
        assert!(slots.give_back(number));
        let small = slots.take(1).unwrap().unwrap();
        assert!(small.descriptor.is_some());
        assert_eq!(slots.take_dropped(), [number]);
    }
}
