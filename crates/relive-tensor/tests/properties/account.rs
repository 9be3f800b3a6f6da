//! Accounts of holders against counting by hand, and frames that move.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use relive_tensor::{Account, AccountSnapshot, Chunk, Codec, Ledger, SequenceRange, Tensor, encode_chunk};

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
    moved: Vec<usize>,
}

impl ByHand {
    fn snapshot(&self, account: usize, chunks: &[Chunk]) -> AccountSnapshot {
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
    Move(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..3_usize, 0..4_usize).prop_map(|(account, chunk)| Step::Hold(account, chunk)),
        3 => (0..3_usize, 0..4_usize).prop_map(|(account, chunk)| Step::Release(account, chunk)),
        1 => (0..4_usize).prop_map(Step::Move),
    ];
    proptest::collection::vec(step, 0..60)
}

fn elsewhere(chunk: &Chunk) -> Bytes {
    Bytes::from(chunk.frame().to_vec())
}

proptest! {
    #[test]
    fn accounts_say_what_their_holders_hold(steps in steps()) {
        let ledger = Arc::new(Ledger::of_movable_chunks());
        let accounts: Vec<Arc<Account>> = (0..3).map(|_| ledger.open_account()).collect();
        let chunks: Vec<Chunk> = (0..4).map(|key| chunk(key, &ledger)).collect();
        let mut by_hand = ByHand::default();
        for step in steps {
            match step {
                Step::Hold(account, number) => {
                    chunks[number].hold(&accounts[account]);
                    *by_hand.uses.entry((account, number)).or_default() += 1;
                }
                Step::Release(account, number) => {
                    let Some(uses) = by_hand.uses.get_mut(&(account, number)).filter(|uses| **uses > 0) else {
                        continue;
                    };
                    *uses -= 1;
                    chunks[number].release(&accounts[account]);
                }
                Step::Move(number) => {
                    let moved = chunks[number].move_frame(elsewhere(&chunks[number])).is_some();
                    // The first is too small to be worth it.
                    prop_assert_eq!(moved, number > 0);
                    if moved {
                        by_hand.moved.push(number);
                    }
                }
            }
            for (number, account) in accounts.iter().enumerate() {
                prop_assert_eq!(account.snapshot(), by_hand.snapshot(number, &chunks), "account {}", number);
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
        scope.spawn(|| chunks.iter().for_each(|chunk| drop(chunk.move_frame(elsewhere(chunk)))));
    });
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

#[test]
fn a_frame_at_hand_stays_as_it_was_while_its_chunk_moves() {
    let ledger = Arc::new(Ledger::of_movable_chunks());
    let chunk = chunk(3, &ledger);
    let before = chunk.frame();
    assert!(chunk.is_resident() && chunk.take_touched() && !chunk.take_touched());
    assert!(chunk.move_frame(Bytes::from_static(&[0; 3])).is_none(), "other bytes than these");
    let other = elsewhere(&chunk);
    let (old, new) = (before.as_ptr(), other.as_ptr());
    let memory = chunk.move_frame(other).unwrap();
    assert_eq!((memory.as_ptr(), chunk.frame().as_ptr()), (old, new));
    assert_eq!(chunk.payload(0).unwrap(), before);
    assert!(!chunk.is_resident());
    assert_eq!(ledger.snapshot().resident_bytes(), 0);
}

#[test]
fn chunks_of_other_ledgers_stay() {
    let chunk = chunk(3, &Arc::default());
    assert!(!chunk.is_movable());
    assert!(chunk.move_frame(elsewhere(&chunk)).is_none());
}
