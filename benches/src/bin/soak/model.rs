//! What must be in the table, what may be, and what must not.
//!
//! The model is told of everything before and after it happens. A kill may take back what came after the last finished
//! checkpoint, and nothing else. *Stamps* are moments in the order of the model's own knowledge.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The priority of items as they are written, and after their update.
pub(crate) const WRITTEN: f64 = 1.0;
pub(crate) const UPDATED: f64 = 2.0;

/// Looks at the whole table after which an item that was never seen counts as never arrived.
const LOOKS: u8 = 2;

#[derive(Default)]
pub(crate) struct Model(Mutex<Known>);

#[derive(Default)]
struct Known {
    items: BTreeMap<u64, Item>,
    /// One more than the last number that was given out.
    next: u64,
    clock: u64,
    /// Kills so far.
    life: u64,
    /// What has an earlier stamp is in a finished checkpoint.
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
    /// Items that a kill took back, as it may.
    pub(crate) taken_back: u64,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    presence: Presence,
    priority: Priority,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Presence {
    /// Must be there.
    Confirmed { since: u64 },
    /// May be there: on its way, or what a kill may have taken back, or a deletion that is not confirmed.
    Unsure { missed: u8, may_arrive: bool },
    /// Must not be there.
    Deleted { since: u64 },
}

#[derive(Clone, Copy, Debug)]
enum Priority {
    Written,
    Either,
    Updated { since: u64 },
}

/// A moment: the stamp, and how often the server had been killed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    stamp: u64,
    life: u64,
}

impl Model {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Moment {
        let mut known = self.lock();
        Moment { stamp: known.tick(), life: known.life }
    }

    /// Whether the server has lived on since.
    pub(crate) fn same_life(&self, moment: Moment) -> bool {
        self.lock().life == moment.life
    }

    /// Numbers for items that are about to be written.
    pub(crate) fn begin_write(&self, count: u64) -> (std::ops::Range<u64>, Moment) {
        let mut known = self.lock();
        let numbers = known.next..known.next + count;
        known.next = numbers.end;
        for number in numbers.clone() {
            known.items.insert(number, Item { presence: UNSURE_MAY_ARRIVE, priority: Priority::Written });
        }
        (numbers, Moment { stamp: known.tick(), life: known.life })
    }

    /// The server has confirmed them all. What was confirmed by a server that was killed meanwhile may be lost.
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

    /// The writer has given up on them.
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
            // Until an item is confirmed its writer may send it again, which sets its priority back.
            if let Some(item) = known.items.get_mut(number)
                && let Presence::Confirmed { since: arrived } = item.presence
                && arrived < begun.stamp
                && let Priority::Either = item.priority
            {
                item.priority = Priority::Updated { since };
            }
        }
    }

    /// A checkpoint that was asked for at `begun` is whole.
    pub(crate) fn checkpointed(&self, begun: Moment) {
        let mut known = self.lock();
        if known.life == begun.life {
            // From now on they are unknown, and must never be seen again. Calls that are under way may have read them
            // before.
            let long_gone = known.durable;
            known
                .items
                .retain(|_, item| !matches!(item.presence, Presence::Deleted { since } if since < long_gone));
            known.durable = known.durable.max(begun.stamp);
        }
    }

    /// The server is about to be killed.
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

    /// An item was read by a call that began at `begun`; a listing has told its priority.
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
            // Once is enough.
            if let Some(item) = known.items.get_mut(&number) {
                *item = Item { presence: UNSURE, priority: Priority::Either };
            }
        }
    }

    /// The whole table was listed from `begun` on, and `found` were in it. Nobody deleted meanwhile.
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

    /// Notes something that must not be.
    pub(crate) fn fault(&self, text: String) {
        self.lock().fault(text);
    }

    pub(crate) fn faults(&self) -> Vec<String> {
        self.lock().faults.clone()
    }

    pub(crate) fn totals(&self) -> Totals {
        self.lock().totals
    }

    /// Items that are or may be in the table.
    pub(crate) fn len(&self) -> usize {
        self.lock().items.len()
    }
}

const UNSURE: Presence = Presence::Unsure { missed: 0, may_arrive: false };
const UNSURE_MAY_ARRIVE: Presence = Presence::Unsure { missed: 0, may_arrive: true };

impl Priority {
    /// What is wrong with a priority that a call which began at `begun` has read.
    fn contradicts(self, priority: f64, begun: Moment) -> Option<String> {
        let expected = match self {
            Self::Updated { since } if since < begun.stamp => &[UPDATED][..],
            Self::Written => &[WRITTEN],
            Self::Either | Self::Updated { .. } => &[WRITTEN, UPDATED],
        };
        (!expected.contains(&priority)).then(|| format!("has priority {priority}, not one of {expected:?}"))
    }
}

impl Known {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn fault(&mut self, text: String) {
        eprintln!("fault: {text}");
        self.faults.push(text);
    }
}
