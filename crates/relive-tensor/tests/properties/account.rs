//! Compares accounts of holders with a naive count, including while frames move.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use relive_tensor::{
    Account, Chunk, ChunkTotals, Codec, Ledger, ResidenceGuard, SequenceRange, Tensor, encode_chunk,
};

#[expect(clippy::unwrap_used, reason = "a helper of tests")]
fn chunk(key: u64, ledger: &Arc<Ledger>) -> Chunk {
    let range = SequenceRange { episode_id: key, start: 0, end: 0, sparse: false };
    let length = 200 + u32::try_from(key).unwrap() * 100;
    let row = Tensor::from_slice(&vec![u8::try_from(key).unwrap(); length as usize], [1, length]).unwrap();
    let parts = encode_chunk(key, range, &[row], false, Codec::Raw).unwrap();
    Chunk::new(parts).unwrap().with_ledger(Arc::clone(ledger))
}

/// The expected state of the accounts.
#[derive(Default)]
struct ExpectedAccounts {
    uses: HashMap<(usize, usize), u32>,
    stored: HashSet<usize>,
    moved: HashSet<usize>,
    /// Frames that a reader holds.
    held_frames: HashMap<usize, Vec<Bytes>>,
}

impl ExpectedAccounts {
    fn snapshot(&self, account: usize, chunks: &[Arc<Chunk>]) -> ChunkTotals {
        let mut sums = ChunkTotals::default();
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
    Evict(usize),
    Restore(usize),
    Keep(usize),
    Drop(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..3_usize, 0..4_usize).prop_map(|(account, chunk)| Step::Hold(account, chunk)),
        3 => (0..3_usize, 0..4_usize).prop_map(|(account, chunk)| Step::Release(account, chunk)),
        1 => (0..4_usize).prop_map(Step::Store),
        2 => (0..4_usize).prop_map(Step::Evict),
        1 => (0..4_usize).prop_map(Step::Restore),
        1 => (0..4_usize).prop_map(Step::Keep),
        1 => (0..4_usize).prop_map(Step::Drop),
    ];
    proptest::collection::vec(step, 0..60)
}

impl ExpectedAccounts {
    /// Performs a step. Returns whether it took effect, and whether it should have taken effect.
    fn moves(&mut self, step: &Step, chunks: &[Arc<Chunk>]) -> (bool, bool) {
        // The first chunk is too small to be movable.
        match *step {
            Step::Store(number) => {
                let stored = chunks[number].set_place(elsewhere(&chunks[number]));
                self.stored.extend((number > 0).then_some(number));
                (stored, number > 0)
            }
            Step::Evict(number) => {
                let is_free = self.held_frames.get(&number).is_none_or(Vec::is_empty);
                let leaves = self.stored.contains(&number) && is_free && self.moved.insert(number);
                (chunks[number].evict_frame(), leaves)
            }
            Step::Restore(number) => {
                let (copy, was_away) = (elsewhere(&chunks[number]), self.moved.remove(&number));
                let frame = chunks[number].restore_frame(&copy);
                let is_copy = frame.as_ref().is_some_and(|frame| frame.as_ptr() == copy.as_ptr());
                drop(copy);
                self.held_frames.entry(number).or_default().extend(frame);
                (is_copy, was_away)
            }
            Step::Keep(number) => {
                let (kept, away) = ResidenceGuard::of(&chunks[number..=number]);
                let frame = away.is_empty().then(|| chunks[number].frame());
                if frame.is_some() && number > 0 {
                    self.held_frames.entry(number).or_default().push(Chunk::shared_frame(&chunks[number]));
                }
                drop(kept);
                (frame.is_none(), self.moved.contains(&number))
            }
            Step::Drop(number) => {
                self.held_frames.remove(&number);
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
    fn accounts_match_the_chunks_of_their_holders(steps in steps()) {
        let ledger = Arc::new(Ledger::of_movable_chunks());
        // One part releases the chunks that another part holds.
        let accounts: Vec<Arc<Account>> = (0..3).map(|_| ledger.open_account()).collect();
        let parts: Vec<[Arc<Account>; 2]> = accounts.iter().map(|whole| [Arc::clone(whole), whole.part().part()]).collect();
        let chunks: Vec<Arc<Chunk>> = (0..4).map(|key| chunk(key, &ledger).into()).collect();
        let mut expected_accounts = ExpectedAccounts::default();
        for step in steps {
            match step {
                Step::Hold(account, number) => {
                    chunks[number].hold(&parts[account][number % 2]);
                    *expected_accounts.uses.entry((account, number)).or_default() += 1;
                }
                Step::Release(account, number) => {
                    let Some(uses) = expected_accounts.uses.get_mut(&(account, number)).filter(|uses| **uses > 0) else {
                        continue;
                    };
                    *uses -= 1;
                    chunks[number].release(&parts[account][(number + 1) % 2]);
                }
                step => {
                    let (found, expected) = expected_accounts.moves(&step, &chunks);
                    prop_assert_eq!(found, expected, "{:?}", step);
                }
            }
            for (number, chunk) in chunks.iter().enumerate() {
                let found = (chunk.is_resident(), chunk.is_stored());
                prop_assert_eq!(found, (!expected_accounts.moved.contains(&number), expected_accounts.stored.contains(&number)));
                prop_assert!(chunk.frame().iter().all(|byte| usize::from(*byte) == number));
            }
            for (number, parts) in parts.iter().enumerate() {
                prop_assert_eq!(Account::snapshot_of(parts), expected_accounts.snapshot(number, &chunks), "account {}", number);
            }
            let spilled: u64 =
                (0..4).filter(|chunk| expected_accounts.moved.contains(chunk)).map(|chunk| chunks[chunk].size_bytes()).sum();
            prop_assert_eq!(ledger.snapshot().spilled_bytes, spilled);
            let holders = |chunk: usize| expected_accounts.uses.iter().filter(|((_, of), uses)| *of == chunk && **uses > 0).count();
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
fn concurrent_holders_keep_exact_counts() {
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
    chunks.iter().for_each(|chunk| assert!(chunk.evict_frame()));
    let bytes: u64 = chunks.iter().map(Chunk::size_bytes).sum();
    for account in &accounts {
        let expected = ChunkTotals {
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
        assert_eq!(account.snapshot(), ChunkTotals::default());
    }
}

/// Leaves the frame in memory, even if another thread does the same with the chunk.
#[expect(clippy::unwrap_used, reason = "a helper of tests")]
fn away_and_back(chunk: &Chunk) {
    assert!(chunk.set_place(elsewhere(chunk)));
    chunk.evict_frame();
    let frame = chunk.restore_frame(&elsewhere(chunk)).unwrap();
    assert!(chunk.is_resident() && !chunk.evict_frame(), "it is at hand");
    assert_eq!(frame, *chunk.frame());
}

#[test]
fn a_frame_in_use_stays_in_memory() {
    let ledger = Arc::new(Ledger::of_movable_chunks());
    let chunk = chunk(3, &ledger);
    let before = chunk.frame();
    assert!(chunk.is_resident() && chunk.take_touched() && !chunk.take_touched());
    assert!(!chunk.set_place(Bytes::from_static(&[0; 3])), "other bytes than these");
    assert!(!chunk.evict_frame() && !chunk.is_stored(), "it has no place");
    let place = elsewhere(&chunk);
    let (old, new) = (before.as_ptr(), place.as_ptr());
    assert!(chunk.set_place(place) && chunk.is_stored() && chunk.is_frame_in_use());
    assert!(!chunk.evict_frame() && chunk.is_resident());
    assert_eq!(chunk.frame().as_ptr(), old);
    drop(before);
    assert!(!chunk.is_frame_in_use() && chunk.evict_frame() && !chunk.is_resident());
    assert_eq!((chunk.frame().as_ptr(), ledger.snapshot().resident_bytes()), (new, 0));
    assert!(!chunk.evict_frame(), "it is away");
    // Readers of the frame in its place do not keep it in memory, and their bytes stay valid for as long as they hold
    // them.
    let far = chunk.frame();
    let back = chunk.restore_frame(&elsewhere(&chunk)).unwrap();
    assert_eq!((chunk.frame().as_ptr(), far.as_ptr()), (back.as_ptr(), new));
    assert_eq!((chunk.payload(0).unwrap(), ledger.snapshot().spilled_bytes), (far, 0));
}

#[test]
fn chunks_of_other_ledgers_are_not_movable() {
    let chunk = chunk(3, &Arc::default());
    assert!(!chunk.is_movable());
    assert!(!chunk.set_place(elsewhere(&chunk)) && !chunk.evict_frame());
    assert!(chunk.restore_frame(&elsewhere(&chunk)).is_none());
}
