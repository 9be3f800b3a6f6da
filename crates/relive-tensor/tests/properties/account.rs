//! Accounts of holders against counting by hand, and frames that move.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use relive_tensor::{
    Account, AccountSnapshot, AtHand, Chunk, Codec, Ledger, SequenceRange, Tensor, encode_chunk,
};

#[expect(clippy::unwrap_used, reason = "a helper of tests")]
fn chunk(key: u64, ledger: &Arc<Ledger>) -> Chunk {
    let range = SequenceRange { episode_id: key, start: 0, end: 0, sparse: false };
    let length = 200 + u32::try_from(key).unwrap() * 100;
    let row = Tensor::from_slice(&vec![u8::try_from(key).unwrap(); length as usize], [1, length]).unwrap();
    let parts = encode_chunk(key, range, &[row], false, Codec::Raw).unwrap();
    Chunk::new(parts).unwrap().with_ledger(Arc::clone(ledger))
}

/// What the accounts should say.
#[derive(Default)]
struct ByHand {
    uses: HashMap<(usize, usize), u32>,
    stored: HashSet<usize>,
    moved: HashSet<usize>,
    /// Frames that somebody has.
    at_hand: HashMap<usize, Vec<Bytes>>,
}

impl ByHand {
    fn snapshot(&self, account: usize, chunks: &[Arc<Chunk>]) -> AccountSnapshot {
        let mut sums = AccountSnapshot::default();
        for (number, chunk) in chunks.iter().enumerate() {
            let holds = |account: usize| self.uses.get(&(account, number)).is_some_and(|&uses| uses > 0);
            if !holds(account) {
                continue;
            }
            sums.chunks += 1;
            sums.encoded_bytes += chunk.size_bytes();
            sums.raw_bytes += chunk.uncompressed_size_bytes();
            if (0..3).any(|other| other != account && holds(other)) {
                sums.shared_bytes += chunk.size_bytes();
            }
            if self.moved.contains(&number) {
                sums.spilled_bytes += chunk.size_bytes();
            }
        }
        sums
    }
}

#[derive(Clone, Debug)]
enum Step {
    Hold(usize, usize),
    Release(usize, usize),
    Store(usize),
    Leave(usize),
    ComeBack(usize),
    Keep(usize),
    LetGo(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..3_usize, 0..4_usize).prop_map(|(account, chunk)| Step::Hold(account, chunk)),
        3 => (0..3_usize, 0..4_usize).prop_map(|(account, chunk)| Step::Release(account, chunk)),
        1 => (0..4_usize).prop_map(Step::Store),
        2 => (0..4_usize).prop_map(Step::Leave),
        1 => (0..4_usize).prop_map(Step::ComeBack),
        1 => (0..4_usize).prop_map(Step::Keep),
        1 => (0..4_usize).prop_map(Step::LetGo),
    ];
    proptest::collection::vec(step, 0..60)
}

impl ByHand {
    /// What a step changes about where a frame is; whether it should.
    fn moves(&mut self, step: &Step, chunks: &[Arc<Chunk>]) -> (bool, bool) {
        // The first is too small to be worth it.
        match *step {
            Step::Store(number) => {
                let stored = chunks[number].set_place(elsewhere(&chunks[number]));
                self.stored.extend((number > 0).then_some(number));
                (stored, number > 0)
            }
            Step::Leave(number) => {
                let is_free = self.at_hand.get(&number).is_none_or(Vec::is_empty);
                let leaves = self.stored.contains(&number) && is_free && self.moved.insert(number);
                (chunks[number].leave_memory(), leaves)
            }
            Step::ComeBack(number) => {
                let (copy, was_away) = (elsewhere(&chunks[number]), self.moved.remove(&number));
                let frame = chunks[number].come_back(&copy);
                let is_copy = frame.as_ref().is_some_and(|frame| frame.as_ptr() == copy.as_ptr());
                drop(copy);
                self.at_hand.entry(number).or_default().extend(frame);
                (is_copy, was_away)
            }
            Step::Keep(number) => {
                let (kept, away) = AtHand::of(&chunks[number..=number]);
                let frame = away.is_empty().then(|| chunks[number].frame());
                if frame.is_some() && number > 0 {
                    self.at_hand.entry(number).or_default().push(Chunk::shared_frame(&chunks[number]));
                }
                drop(kept);
                (frame.is_none(), self.moved.contains(&number))
            }
            Step::LetGo(number) => {
                self.at_hand.remove(&number);
                (false, false)
            }
            Step::Hold(..) | Step::Release(..) => (false, false),
        }
    }
}

fn elsewhere(chunk: &Chunk) -> Bytes {
    Bytes::from(chunk.frame().to_vec())
}

proptest! {
    #[test]
    fn accounts_say_what_their_holders_hold(steps in steps()) {
        let ledger = Arc::new(Ledger::of_movable_chunks());
        // What one part holds, another releases.
        let accounts: Vec<Arc<Account>> = (0..3).map(|_| ledger.open_account()).collect();
        let parts: Vec<[Arc<Account>; 2]> = accounts.iter().map(|whole| [Arc::clone(whole), whole.part().part()]).collect();
        let chunks: Vec<Arc<Chunk>> = (0..4).map(|key| chunk(key, &ledger).into()).collect();
        let mut by_hand = ByHand::default();
        for step in steps {
            match step {
                Step::Hold(account, number) => {
                    chunks[number].hold(&parts[account][number % 2]);
                    *by_hand.uses.entry((account, number)).or_default() += 1;
                }
                Step::Release(account, number) => {
                    let Some(uses) = by_hand.uses.get_mut(&(account, number)).filter(|uses| **uses > 0) else {
                        continue;
                    };
                    *uses -= 1;
                    chunks[number].release(&parts[account][(number + 1) % 2]);
                }
                step => {
                    let (found, expected) = by_hand.moves(&step, &chunks);
                    prop_assert_eq!(found, expected, "{:?}", step);
                }
            }
            for (number, chunk) in chunks.iter().enumerate() {
                let found = (chunk.is_resident(), chunk.is_stored());
                prop_assert_eq!(found, (!by_hand.moved.contains(&number), by_hand.stored.contains(&number)));
                prop_assert!(chunk.frame().iter().all(|byte| usize::from(*byte) == number));
            }
            for (number, parts) in parts.iter().enumerate() {
                prop_assert_eq!(Account::snapshot_of(parts), by_hand.snapshot(number, &chunks), "account {}", number);
            }
            let spilled: u64 =
                (0..4).filter(|chunk| by_hand.moved.contains(chunk)).map(|chunk| chunks[chunk].size_bytes()).sum();
            prop_assert_eq!(ledger.snapshot().spilled_bytes, spilled);
            let holders = |chunk: usize| by_hand.uses.iter().filter(|((_, of), uses)| *of == chunk && **uses > 0).count();
            let shared: u64 = (0..4).filter(|chunk| holders(*chunk) > 1).map(|chunk| chunks[chunk].size_bytes()).sum();
            prop_assert_eq!(ledger.snapshot().shared_bytes, shared);
        }
        drop(chunks);
        prop_assert_eq!(ledger.snapshot().encoded_bytes, 0);
        prop_assert_eq!(ledger.snapshot().spilled_bytes, 0);
        prop_assert_eq!(ledger.snapshot().shared_bytes, 0);
    }
}

#[test]
fn holders_on_many_threads_lose_no_count() {
    let ledger = Arc::new(Ledger::of_movable_chunks());
    let chunks: Vec<Chunk> = (1..4).map(|key| chunk(key, &ledger)).collect();
    let accounts: Vec<Arc<Account>> = (0..3).map(|_| ledger.open_account()).collect();
    std::thread::scope(|scope| {
        for account in &accounts {
            scope.spawn(|| {
                for round in 0..3_000 {
                    chunks.iter().for_each(|chunk| chunk.hold(account));
                    if round % 3 > 0 {
                        chunks.iter().for_each(|chunk| chunk.release(account));
                    }
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| (0..3_000).for_each(|_| chunks.iter().for_each(away_and_back)));
        }
    });
    assert_eq!(ledger.snapshot().spilled_bytes, 0);
    chunks.iter().for_each(|chunk| assert!(chunk.leave_memory()));
    let bytes: u64 = chunks.iter().map(Chunk::size_bytes).sum();
    for account in &accounts {
        let expected = AccountSnapshot {
            chunks: 3,
            encoded_bytes: bytes,
            raw_bytes: bytes,
            shared_bytes: bytes,
            spilled_bytes: bytes,
        };
        assert_eq!(account.snapshot(), expected);
    }
    for account in &accounts {
        (0..1_000).for_each(|_| chunks.iter().for_each(|chunk| chunk.release(account)));
        assert_eq!(account.snapshot(), AccountSnapshot::default());
    }
}

/// Ends in memory, whatever another thread does with the chunk in the same way.
#[expect(clippy::unwrap_used, reason = "a helper of tests")]
fn away_and_back(chunk: &Chunk) {
    assert!(chunk.set_place(elsewhere(chunk)));
    chunk.leave_memory();
    let frame = chunk.come_back(&elsewhere(chunk)).unwrap();
    assert!(chunk.is_resident() && !chunk.leave_memory(), "it is at hand");
    assert_eq!(frame, *chunk.frame());
}

#[test]
fn a_frame_at_hand_stays_where_it_is() {
    let ledger = Arc::new(Ledger::of_movable_chunks());
    let chunk = chunk(3, &ledger);
    let before = chunk.frame();
    assert!(chunk.is_resident() && chunk.take_touched() && !chunk.take_touched());
    assert!(!chunk.set_place(Bytes::from_static(&[0; 3])), "other bytes than these");
    assert!(!chunk.leave_memory() && !chunk.is_stored(), "it has no place");
    let place = elsewhere(&chunk);
    let (old, new) = (before.as_ptr(), place.as_ptr());
    assert!(chunk.set_place(place) && chunk.is_stored() && chunk.is_at_hand());
    assert!(!chunk.leave_memory() && chunk.is_resident());
    assert_eq!(chunk.frame().as_ptr(), old);
    drop(before);
    assert!(!chunk.is_at_hand() && chunk.leave_memory() && !chunk.is_resident());
    assert_eq!((chunk.frame().as_ptr(), ledger.snapshot().resident_bytes()), (new, 0));
    assert!(!chunk.leave_memory(), "it is away");
    // Readers of the place hold nothing back, and have it for as long as they like.
    let far = chunk.frame();
    let back = chunk.come_back(&elsewhere(&chunk)).unwrap();
    assert_eq!((chunk.frame().as_ptr(), far.as_ptr()), (back.as_ptr(), new));
    assert_eq!((chunk.payload(0).unwrap(), ledger.snapshot().spilled_bytes), (far, 0));
}

#[test]
fn chunks_of_other_ledgers_stay() {
    let chunk = chunk(3, &Arc::default());
    assert!(!chunk.is_movable());
    assert!(!chunk.set_place(elsewhere(&chunk)) && !chunk.leave_memory());
    assert!(chunk.come_back(&elsewhere(&chunk)).is_none());
}
