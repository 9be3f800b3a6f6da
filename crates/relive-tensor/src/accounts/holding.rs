//! Counts the holders of a chunk, and records where the chunk's frame is.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Weak;

use super::account::Account;
use super::ledger::{Ledger, Lists};
use super::word::{ChunkState, Counted, SEVERAL, Word};

/// Counts one more item of `account` that refers to this chunk. Further properties of the chunk are requested only if
/// they are needed, because the account usually already holds the chunk.
pub(crate) fn hold<'a>(
    state: &ChunkState,
    account: &Account,
    chunk: impl FnOnce() -> (Counted<'a>, &'a Ledger),
) {
    match state.hold_alone(account.number) {
        Ok(before) if before.holder() != 0 => {}
        Ok(before) => account.count(&chunk().0, before, 1),
        Err(_) => {
            let (chunk, holders_ledger) = chunk();
            chunk.hold_among_several(holders_ledger, account);
        }
    }
}

/// Counts one fewer item of `account` that refers to this chunk.
pub(crate) fn release<'a>(
    state: &ChunkState,
    account: &Account,
    chunk: impl FnOnce() -> (Counted<'a>, &'a Ledger),
) {
    match state.release_alone(account.number) {
        Ok(before) if before.uses() > 1 => {}
        Ok(before) => account.count(&chunk().0, before, -1),
        Err(_) => {
            let (chunk, holders_ledger) = chunk();
            chunk.release_among_several(holders_ledger, account);
        }
    }
}

impl ChunkState {
    /// Counts one more item of the account `number`, unless another account holds the chunk. Returns the previous word,
    /// or `Err` if nothing changed.
    fn hold_alone(&self, number: u32) -> Result<Word, Word> {
        self.update_holder(|word| match word.holder() {
            0 => Some((number, 1)),
            holder => (holder == number).then(|| (number, word.uses() + 1)),
        })
    }

    /// Counts one fewer item of the account `number`, unless another account also holds the chunk. Returns the previous
    /// word, or `Err` if nothing changed.
    fn release_alone(&self, number: u32) -> Result<Word, Word> {
        let less = |word: Word| (word.holder() == number).then(|| (number, word.uses().saturating_sub(1)));
        self.update_holder(less)
    }
}

impl Counted<'_> {
    /// A chunk's list of holders is created, changed and removed only under the lock of the lists. The state that was
    /// read before taking the lock may have changed.
    fn hold_among_several(&self, holders_ledger: &Ledger, account: &Account) {
        let mut lists = holders_ledger.lists();
        let Lists { open, several } = &mut *lists;
        let to_several = |word: Word| match word.holder() {
            0 => Some((account.number, 1)),
            holder if holder == account.number => Some((holder, word.uses() + 1)),
            _ => Some((SEVERAL, 0)),
        };
        let Ok(before) = self.state.update_holder(to_several) else { return };
        match before.holder() {
            0 => return account.count(self, before, 1),
            holder if holder == account.number => return,
            _ => {}
        }
        let holders = several.entry(self.address).or_default();
        if before.holder() != SEVERAL {
            holders.push((before.holder(), before.uses()));
            with_account(open, before.holder(), |first| first.count_shared(self, 1));
            holders_ledger.count_shared(self.encoded_bytes);
        }
        if let Some((_, uses)) = holders.iter_mut().find(|(number, _)| *number == account.number) {
            *uses += 1;
            return;
        }
        holders.push((account.number, 1));
        account.count(self, before, 1);
        account.count_shared(self, 1);
    }

    fn release_among_several(&self, holders_ledger: &Ledger, account: &Account) {
        let mut lists = holders_ledger.lists();
        if let Ok(before) = self.state.release_alone(account.number) {
            if before.uses() <= 1 {
                account.count(self, before, -1);
            }
            return;
        }
        let Lists { open, several } = &mut *lists;
        let Entry::Occupied(mut entry) = several.entry(self.address) else { return };
        let holders = entry.get_mut();
        let Some(at) = holders.iter().position(|(number, _)| *number == account.number) else { return };
        if let Some((_, uses)) = holders.get_mut(at) {
            *uses -= 1;
            if *uses > 0 {
                return;
            }
        }
        holders.remove(at);
        account.count(self, self.state.get(), -1);
        account.count_shared(self, -1);
        if let [(last, uses)] = *holders.as_slice() {
            with_account(open, last, |last| last.count_shared(self, -1));
            holders_ledger.count_out_shared(self.encoded_bytes);
            // The closure never returns `None`.
            let _ = self.state.update_holder(|_| Some((last, uses)));
            entry.remove();
        }
    }

    /// Calls `change`, which may move the frame out of memory or back, and records a move in the accounts of all
    /// holders.
    ///
    /// All such changes are made under the lock of the lists, so the word and the location of the frame change
    /// together. Holders change the word without the lock. Each change to the word accounts for the state that it
    /// replaces, so the sums do not depend on the order of the changes.
    pub(crate) fn note_moved(
        &self,
        holders_ledger: &Ledger,
        is_moved: bool,
        change: impl FnOnce() -> bool,
    ) -> bool {
        let lists = holders_ledger.lists();
        if !change() {
            return false;
        }
        let before = self.state.set_moved(is_moved);
        let sign = if is_moved { 1 } else { -1 };
        holders_ledger.count_spilled(self.encoded_bytes, is_moved);
        let spilled = |number| with_account(&lists.open, number, |account| account.count_spilled(self, sign));
        match before.holder() {
            0 => {}
            SEVERAL => {
                let holders = lists.several.get(&self.address);
                holders.into_iter().flatten().for_each(|(number, _)| spilled(*number));
            }
            number => spilled(number),
        }
        true
    }

    /// Removes from the list a chunk that is dropped while accounts still hold it. These accounts no longer exist,
    /// since holders keep their chunks alive.
    pub(crate) fn remove_from_lists(&self, holders_ledger: &Ledger) {
        if self.state.get().holder() == SEVERAL {
            holders_ledger.lists().several.remove(&self.address);
            holders_ledger.count_out_shared(self.encoded_bytes);
        }
    }
}

fn with_account(open: &HashMap<u32, Weak<Account>>, number: u32, act: impl FnOnce(&Account)) {
    if let Some(account) = open.get(&number).and_then(Weak::upgrade) {
        act(&account);
    }
}
