//! A model of the items that must be in the table, may be in it, or must not be in it.
//!
//! The model is notified before and after every operation. A kill may revert operations after the last finished
//! checkpoint, and no others. *Stamps* number the notifications, in the order in which the model receives them.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The priority of items as they are written, and after their update.
pub(crate) const WRITTEN: f64 = 1.0;
pub(crate) const UPDATED: f64 = 2.0;

/// The number of listings of the whole table after which an item that was never seen is considered not to have arrived.
const LOOKS: u8 = 2;

#[derive(Default)]
pub(crate) struct Model(Mutex<ModelState>);

#[derive(Default)]
struct ModelState {
    items: BTreeMap<u64, Item>,
    /// The next number to assign.
    next: u64,
    clock: u64,
    /// The number of kills so far.
    life: u64,
    /// Operations with an earlier stamp are in a finished checkpoint.
    durable: u64,
    totals: Totals,
    faults: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) confirmed: u64,
    pub(crate) deleted: u64,
    pub(crate) updated: u64,
    pub(crate) checked: u64,
    pub(crate) looks: u64,
    /// The number of items that a kill reverted, as it may.
    pub(crate) taken_back: u64,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    presence: Presence,
    priority: Priority,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Presence {
    /// Must be in the table.
    Confirmed { since: u64 },
    /// May be in the table: its insert is in flight, a kill may have reverted it, or its deletion is not confirmed.
    Unsure { missed: u8, may_arrive: bool },
    /// Must not be in the table.
    Deleted { since: u64 },
}

#[derive(Clone, Copy, Debug)]
enum Priority {
    Written,
    Either,
    Updated { since: u64 },
}

/// A moment, given by the stamp and the number of kills so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    stamp: u64,
    life: u64,
}

impl Model {
    fn lock(&self) -> MutexGuard<'_, ModelState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Moment {
        let mut known = self.lock();
        Moment { stamp: known.tick(), life: known.life }
    }

    /// Returns whether the server has not been killed since this moment.
    pub(crate) fn same_life(&self, moment: Moment) -> bool {
        self.lock().life == moment.life
    }

    /// Returns numbers for items that are about to be written.
    pub(crate) fn begin_write(&self, count: u64) -> (std::ops::Range<u64>, Moment) {
        let mut known = self.lock();
        let numbers = known.next..known.next + count;
        known.next = numbers.end;
        for number in numbers.clone() {
            known.items.insert(number, Item { presence: UNSURE_MAY_ARRIVE, priority: Priority::Written });
        }
        (numbers, Moment { stamp: known.tick(), life: known.life })
    }

    /// Records that the server has confirmed all of these items. If it has been killed since `begun`, the items may be
    /// lost.
    pub(crate) fn confirm(&self, numbers: std::ops::Range<u64>, begun: Moment) {
        let mut known = self.lock();
        let (since, is_sure) = (known.tick(), known.life == begun.life);
        known.totals.confirmed += numbers.end - numbers.start;
        for number in numbers {
            if let Some(item) = known.items.get_mut(&number)
                && let Presence::Unsure { .. } = item.presence
            {
                item.presence = if is_sure { Presence::Confirmed { since } } else { UNSURE };
            }
        }
    }

    /// Records that the writer has abandoned these items.
    pub(crate) fn abandon(&self, numbers: std::ops::Range<u64>) {
        let mut known = self.lock();
        for number in numbers {
            if let Some(item) = known.items.get_mut(&number)
                && let Presence::Unsure { .. } = item.presence
            {
                item.presence = UNSURE;
            }
        }
    }

    pub(crate) fn begin_delete(&self, numbers: &[u64]) -> Moment {
        let mut known = self.lock();
        for number in numbers {
            if let Some(item) = known.items.get_mut(number) {
                item.presence = UNSURE;
            }
        }
        Moment { stamp: known.tick(), life: known.life }
    }

    pub(crate) fn confirm_delete(&self, numbers: &[u64], begun: Moment) {
        let mut known = self.lock();
        let since = known.tick();
        known.totals.deleted += numbers.len() as u64;
        if known.life != begun.life {
            return;
        }
        for number in numbers {
            if let Some(item) = known.items.get_mut(number) {
                item.presence = Presence::Deleted { since };
            }
        }
    }

    pub(crate) fn begin_update(&self, numbers: &[u64]) -> Moment {
        let mut known = self.lock();
        for number in numbers {
            if let Some(item) = known.items.get_mut(number)
                && let Priority::Written = item.priority
            {
                item.priority = Priority::Either;
            }
        }
        Moment { stamp: known.tick(), life: known.life }
    }

    pub(crate) fn confirm_update(&self, numbers: &[u64], begun: Moment) {
        let mut known = self.lock();
        let since = known.tick();
        known.totals.updated += numbers.len() as u64;
        if known.life != begun.life {
            return;
        }
        for number in numbers {
            // Until an item is confirmed, its writer may resend it, which resets its priority.
            if let Some(item) = known.items.get_mut(number)
                && let Presence::Confirmed { since: arrived } = item.presence
                && arrived < begun.stamp
                && let Priority::Either = item.priority
            {
                item.priority = Priority::Updated { since };
            }
        }
    }

    /// Records that a checkpoint that was requested at `begun` is complete.
    pub(crate) fn checkpointed(&self, begun: Moment) {
        let mut known = self.lock();
        if known.life == begun.life {
            // These items are forgotten now, and must never be seen again. Calls in progress may have read them before.
            let long_gone = known.durable;
            known
                .items
                .retain(|_, item| !matches!(item.presence, Presence::Deleted { since } if since < long_gone));
            known.durable = known.durable.max(begun.stamp);
        }
    }

    /// Records that the server is about to be killed.
    pub(crate) fn killed(&self) {
        let mut known = self.lock();
        known.life += 1;
        let durable = known.durable;
        for item in known.items.values_mut() {
            match item.presence {
                Presence::Confirmed { since } | Presence::Deleted { since } if since >= durable => {
                    item.presence = UNSURE;
                }
                Presence::Unsure { may_arrive, .. } => {
                    item.presence = Presence::Unsure { missed: 0, may_arrive };
                }
                Presence::Confirmed { .. } | Presence::Deleted { .. } => {}
            }
            if let Priority::Updated { since } = item.priority
                && since >= durable
            {
                item.priority = Priority::Either;
            }
        }
    }

    /// Records that an item was read by a call that began at `begun`; the item's priority is known if the item was
    /// listed.
    pub(crate) fn seen(&self, number: u64, priority: Option<f64>, begun: Moment) {
        let mut known = self.lock();
        known.totals.checked += 1;
        if known.life != begun.life {
            return;
        }
        let fault = match known.items.get(&number) {
            None => Some(
                "is there, but was never written, or deleted before the last checkpoint but one".to_owned(),
            ),
            Some(Item { presence: Presence::Deleted { since }, .. }) if *since < begun.stamp => {
                Some("was read after its deletion had been confirmed".to_owned())
            }
            Some(item) => priority.and_then(|priority| item.priority.contradicts(priority, begun)),
        };
        if let Some(fault) = fault {
            known.fault(format!("item {number} {fault}"));
            // Each fault is reported only once.
            if let Some(item) = known.items.get_mut(&number) {
                *item = Item { presence: UNSURE, priority: Priority::Either };
            }
        }
    }

    /// Records that the whole table was listed, starting at `begun`, and that the items `found` were in it. No item was
    /// deleted in the meantime.
    pub(crate) fn looked(&self, found: &HashSet<u64>, begun: Moment) {
        let mut known = self.lock();
        if known.life != begun.life {
            return;
        }
        known.totals.looks += 1;
        let since = known.tick();
        let (mut lost, mut gone) = (Vec::new(), Vec::new());
        for (&number, item) in &mut known.items {
            let is_there = found.contains(&number);
            match item.presence {
                Presence::Confirmed { since } if since < begun.stamp && !is_there => lost.push(number),
                Presence::Unsure { may_arrive: false, .. } if is_there => {
                    item.presence = Presence::Confirmed { since };
                }
                Presence::Unsure { missed, may_arrive: false } if missed + 1 >= LOOKS => gone.push(number),
                Presence::Unsure { missed, may_arrive: false } => {
                    item.presence = Presence::Unsure { missed: missed + 1, may_arrive: false };
                }
                _ => {}
            }
        }
        known.totals.taken_back += gone.len() as u64;
        for number in gone {
            known.items.remove(&number);
        }
        for number in lost {
            known.items.remove(&number);
            known.fault(format!("item {number} was confirmed and is not there"));
        }
    }

    /// Records a violation.
    pub(crate) fn fault(&self, text: String) {
        self.lock().fault(text);
    }

    pub(crate) fn faults(&self) -> Vec<String> {
        self.lock().faults.clone()
    }

    pub(crate) fn totals(&self) -> Totals {
        self.lock().totals
    }

    /// Returns the number of items that are or may be in the table.
    pub(crate) fn len(&self) -> usize {
        self.lock().items.len()
    }
}

const UNSURE: Presence = Presence::Unsure { missed: 0, may_arrive: false };
const UNSURE_MAY_ARRIVE: Presence = Presence::Unsure { missed: 0, may_arrive: true };

impl Priority {
    /// Describes the fault of a priority that was read by a call that began at `begun`, if there is one.
    fn contradicts(self, priority: f64, begun: Moment) -> Option<String> {
        let expected = match self {
            Self::Updated { since } if since < begun.stamp => &[UPDATED][..],
            Self::Written => &[WRITTEN],
            Self::Either | Self::Updated { .. } => &[WRITTEN, UPDATED],
        };
        (!expected.contains(&priority)).then(|| format!("has priority {priority}, not one of {expected:?}"))
    }
}

impl ModelState {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn fault(&mut self, text: String) {
        eprintln!("fault: {text}");
        self.faults.push(text);
    }
}
