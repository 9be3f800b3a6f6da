//! Whose the chunks are: accounts of tables, exact also where tables share chunks.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use smallvec::SmallVec;

use super::state::{SEVERAL, Word};
use super::{Chunk, Ledger};

/// The chunks that one holder's items refer to, each counted once: what a table takes.
///
/// Made by [`Ledger::open_account`]. [`Chunk::hold`] and [`Chunk::release`] keep it, one call for each item and distinct
/// chunk of it.
///
/// Alone in its cache lines: parts of an account count side by side.
#[derive(Debug)]
#[repr(align(128))]
pub struct Account {
    number: u32,
    chunks: AtomicI64,
    encoded_bytes: AtomicI64,
    raw_bytes: AtomicI64,
    shared_bytes: AtomicI64,
    spilled_bytes: AtomicI64,
    /// The account of which this is a part. What is counted for the account as such is counted there.
    whole: Option<Arc<Account>>,
}

/// The totals of an [`Account`] at about one moment; each is exact by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountSnapshot {
    /// Distinct chunks.
    pub chunks: u64,
    /// Bytes of their frames.
    pub encoded_bytes: u64,
    /// Bytes of their content once decoded.
    pub raw_bytes: u64,
    /// Of the encoded bytes, those that another account holds, too.
    pub shared_bytes: u64,
    /// Of the encoded bytes, those that lie on disk instead of in memory.
    pub spilled_bytes: u64,
}

impl AccountSnapshot {
    /// Encoded bytes in memory.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        self.encoded_bytes.saturating_sub(self.spilled_bytes)
    }
}

/// Numbers are unique in the process, so that a chunk in the wrong hands is at least never counted for another's.
static NEXT_NUMBER: AtomicU32 = AtomicU32::new(1);

/// Accounts of a ledger, and the chunks that several of them hold.
#[derive(Debug, Default)]
pub(super) struct Accounts(Mutex<Lists>);

#[derive(Debug, Default)]
struct Lists {
    open: HashMap<u32, Weak<Account>>,
    /// By the chunks' addresses: who holds one how often.
    several: HashMap<usize, SmallVec<[(u32, u64); 4]>>,
}

impl Ledger {
    /// A new account, whose chunks count in this ledger.
    #[must_use]
    pub fn open_account(&self) -> Arc<Account> {
        let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed) % SEVERAL;
        let account = Arc::new(Account::new(number.max(1), None));
        let mut lists = self.accounts().lock();
        lists.open.retain(|_, account| account.strong_count() > 0);
        lists.open.insert(account.number, Arc::downgrade(&account));
        account
    }
}

impl Account {
    fn new(number: u32, whole: Option<Arc<Account>>) -> Self {
        let zero = || AtomicI64::new(0);
        let (chunks, encoded_bytes, raw_bytes) = (zero(), zero(), zero());
        let (shared_bytes, spilled_bytes) = (zero(), zero());
        Self { number, chunks, encoded_bytes, raw_bytes, shared_bytes, spilled_bytes, whole }
    }

    /// Another part of the same account, for somebody who holds chunks at the same time: to chunks they are one holder, but
    /// each counts in sums of its own, so that they do not wait for each other. A part may release what another has held. Only
    /// the sums of all parts together mean something: [`snapshot_of`](Self::snapshot_of).
    #[must_use]
    pub fn part(self: &Arc<Self>) -> Arc<Self> {
        let whole = self.whole.as_ref().unwrap_or(self);
        Arc::new(Self::new(self.number, Some(Arc::clone(whole))))
    }

    /// The current totals of an account that has no other parts.
    #[must_use]
    pub fn snapshot(&self) -> AccountSnapshot {
        Self::snapshot_of(&[self])
    }

    /// The current totals of an account, given all its parts.
    #[must_use]
    pub fn snapshot_of(parts: &[impl std::ops::Deref<Target = Self>]) -> AccountSnapshot {
        // Between two steps of one change a sum may be below zero for an instant.
        let get = |sum: fn(&Self) -> &AtomicI64| {
            let total: i64 = parts.iter().map(|part| sum(part).load(Ordering::Relaxed)).sum();
            u64::try_from(total).unwrap_or(0)
        };
        AccountSnapshot {
            chunks: get(|part| &part.chunks),
            encoded_bytes: get(|part| &part.encoded_bytes),
            raw_bytes: get(|part| &part.raw_bytes),
            shared_bytes: get(|part| &part.shared_bytes),
            spilled_bytes: get(|part| &part.spilled_bytes),
        }
    }

    /// Bytes of the frames of distinct chunks.
    #[must_use]
    pub fn encoded_bytes(&self) -> u64 {
        u64::try_from(self.encoded_bytes.load(Ordering::Relaxed)).unwrap_or(0)
    }

    fn count(&self, chunk: &Chunk, word: Word, sign: i64) {
        let size = signed(chunk.size_bytes());
        self.chunks.fetch_add(sign, Ordering::Relaxed);
        self.encoded_bytes.fetch_add(sign * size, Ordering::Relaxed);
        self.raw_bytes.fetch_add(sign * signed(chunk.uncompressed_size_bytes()), Ordering::Relaxed);
        if word.is_moved() {
            self.spilled_bytes.fetch_add(sign * size, Ordering::Relaxed);
        }
    }

    fn count_shared(&self, chunk: &Chunk, sign: i64) {
        self.shared_bytes.fetch_add(sign * signed(chunk.size_bytes()), Ordering::Relaxed);
    }

    fn count_spilled(&self, chunk: &Chunk, sign: i64) {
        self.spilled_bytes.fetch_add(sign * signed(chunk.size_bytes()), Ordering::Relaxed);
    }
}

/// Sizes of chunks are below 2^32.
fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

impl Chunk {
    /// Counts one more item of `account` that refers to this chunk.
    pub fn hold(&self, account: &Account) {
        if !self.hold_alone(account) {
            self.hold_among_several(account);
        }
    }

    /// Counts one item of `account` less that refers to this chunk.
    pub fn release(&self, account: &Account) {
        if !self.release_alone(account) {
            self.release_among_several(account);
        }
    }

    /// Whether an item of some account refers to this chunk.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.state().get().holder() != 0
    }

    /// Does it if nobody else holds the chunk.
    fn hold_alone(&self, account: &Account) -> bool {
        let number = account.number;
        let more = |word: Word| match word.holder() {
            0 => Some((number, 1)),
            holder => (holder == number).then(|| (number, word.uses() + 1)),
        };
        let held = self.state().update_holder(more);
        if let Ok(before) = held
            && before.holder() == 0
        {
            account.count(self, before, 1);
        }
        held.is_ok()
    }

    /// Does it if nobody else holds the chunk.
    fn release_alone(&self, account: &Account) -> bool {
        let number = account.number;
        let less = |word: Word| (word.holder() == number).then(|| (number, word.uses().saturating_sub(1)));
        let released = self.state().update_holder(less);
        if let Ok(before) = released
            && before.uses() <= 1
        {
            account.count(self, before, -1);
        }
        released.is_ok()
    }

    /// All changes of the list, and of whether there is one, are made under its lock. What was found before the lock may
    /// have changed.
    fn hold_among_several(&self, account: &Account) {
        let mut lists = self.books().accounts().lock();
        let Lists { open, several } = &mut *lists;
        let to_several = |word: Word| match word.holder() {
            0 => Some((account.number, 1)),
            holder if holder == account.number => Some((holder, word.uses() + 1)),
            _ => Some((SEVERAL, 0)),
        };
        let Ok(before) = self.state().update_holder(to_several) else { return };
        match before.holder() {
            0 => return account.count(self, before, 1),
            holder if holder == account.number => return,
            _ => {}
        }
        let holders = several.entry(self.address()).or_default();
        if before.holder() != SEVERAL {
            holders.push((before.holder(), before.uses()));
            with_account(open, before.holder(), |first| first.count_shared(self, 1));
            self.books().count_shared(self.size_bytes());
        }
        if let Some((_, uses)) = holders.iter_mut().find(|(number, _)| *number == account.number) {
            *uses += 1;
            return;
        }
        holders.push((account.number, 1));
        account.count(self, before, 1);
        account.count_shared(self, 1);
    }

    fn release_among_several(&self, account: &Account) {
        let mut lists = self.books().accounts().lock();
        if self.release_alone(account) {
            return;
        }
        let Lists { open, several } = &mut *lists;
        let Entry::Occupied(mut entry) = several.entry(self.address()) else { return };
        let holders = entry.get_mut();
        let Some(at) = holders.iter().position(|(number, _)| *number == account.number) else { return };
        if let Some((_, uses)) = holders.get_mut(at) {
            *uses -= 1;
            if *uses > 0 {
                return;
            }
        }
        holders.remove(at);
        account.count(self, self.state().get(), -1);
        account.count_shared(self, -1);
        if let [(last, uses)] = *holders.as_slice() {
            with_account(open, last, |last| last.count_shared(self, -1));
            self.books().count_out_shared(self.size_bytes());
            // The closure never refuses.
            let _ = self.state().update_holder(|_| Some((last, uses)));
            entry.remove();
        }
    }

    /// Has the frame leave memory or come back, if `change` does so, and notes it in the accounts of all that hold the
    /// chunk.
    ///
    /// All such changes are made under the lock of the lists, so what the word says and where the frame is change
    /// together. Holders change the word without the lock; each change of the word counts what it finds there, so the sums come
    /// out the same whichever is first.
    pub(super) fn note_moved(&self, is_moved: bool, change: impl FnOnce() -> bool) -> bool {
        let books = self.books();
        let lists = books.accounts().lock();
        if !change() {
            return false;
        }
        let before = self.state().set_moved(is_moved);
        let sign = if is_moved { 1 } else { -1 };
        books.count_spilled(self.size_bytes(), is_moved);
        let spilled = |number| with_account(&lists.open, number, |account| account.count_spilled(self, sign));
        match before.holder() {
            0 => {}
            SEVERAL => {
                let holders = lists.several.get(&self.address());
                holders.into_iter().flatten().for_each(|(number, _)| spilled(*number));
            }
            number => spilled(number),
        }
        true
    }

    /// Takes a chunk that is dropped while accounts hold it off the list. They are gone: whoever holds chunks has them.
    pub(super) fn leave_lists(&self) {
        if self.state().get().holder() == SEVERAL {
            self.books().accounts().lock().several.remove(&self.address());
            self.books().count_out_shared(self.size_bytes());
        }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

fn with_account(open: &HashMap<u32, Weak<Account>>, number: u32, act: impl FnOnce(&Account)) {
    if let Some(account) = open.get(&number).and_then(Weak::upgrade) {
        act(&account);
    }
}

impl Accounts {
    /// Nothing that panics is done under the lock.
    fn lock(&self) -> MutexGuard<'_, Lists> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
