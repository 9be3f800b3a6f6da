//! The conditions that writers wait for, and the timeout errors.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use relive_connection::{Error, ErrorKind};

use crate::items::PendingItem;

/// The largest number of tables that a message about pending items names.
const MAX_TABLES_IN_ERROR: usize = 8;

/// How long the first items of a table are held back, at most, until the server has received their names. This is far
/// longer than a server needs, but short enough to be acceptable if the server does not answer.
pub(super) const MAX_HOLD: Duration = Duration::from_secs(1);

/// Limits on unconfirmed items.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) items: usize,
    pub(crate) bytes: usize,
}

/// The number and the size of unconfirmed items.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pending {
    pub(crate) items: usize,
    /// The number of unconfirmed items that have not been sent yet.
    pub(crate) queued: usize,
    pub(crate) bytes: usize,
}

/// Unconfirmed items.
#[derive(Debug)]
pub(crate) struct Unconfirmed {
    pub(crate) items: usize,
    /// The number of unconfirmed items of each table.
    pub(crate) tables: String,
    /// The reason why the items are unconfirmed.
    pub(crate) why: String,
    /// Whether the server is unreachable.
    pub(crate) is_away: bool,
    /// Whether the writer has failed, so that the items can no longer be confirmed.
    pub(crate) has_failed: bool,
}

/// Formats the number of items of each table, largest first.
pub(crate) fn by_table<'a>(items: impl Iterator<Item = &'a PendingItem>) -> String {
    let mut tables: Vec<(&Arc<str>, usize)> = Vec::new();
    for item in items {
        match tables.iter_mut().find(|(table, _)| **table == item.table) {
            Some((_, items)) => *items += 1,
            None => tables.push((&item.table, 1)),
        }
    }
    tables.sort_by_key(|(_, items)| std::cmp::Reverse(*items));
    let mut text = String::new();
    for (number, (table, items)) in tables.iter().take(MAX_TABLES_IN_ERROR).enumerate() {
        let _ = write!(text, "{}{items} for table {table:?}", if number == 0 { "" } else { ", " });
    }
    match tables.len().saturating_sub(MAX_TABLES_IN_ERROR) {
        0 => text,
        others => format!("{text}, and others for {others} more tables"),
    }
}

impl Limits {
    /// Returns whether another item may be added. If nothing is pending, an item of any size may be added.
    pub(crate) fn have_room(self, pending: Pending) -> bool {
        pending.items == 0 || pending.items < self.items && pending.bytes < self.bytes
    }
}

/// The condition that a writer waits for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Goal {
    /// At most this many items are unconfirmed.
    Pending(usize),
    /// At most half of the limits is in use, so that a full writer does not wake up for every item.
    Room(Limits),
}

impl Goal {
    pub(crate) fn is_reached(self, pending: Pending) -> bool {
        match self {
            Goal::Pending(items) => pending.items <= items,
            Goal::Room(limits) => {
                pending.items <= limits.items / 2 && pending.bytes <= limits.bytes / 2 || pending.items == 0
            }
        }
    }

    fn text(self) -> &'static str {
        match self {
            Goal::Pending(_) => "flush",
            Goal::Room(_) => "create_item: waiting for space in the queue",
        }
    }

    /// Returns the error for a goal that was not reached in time.
    pub(crate) fn timed_out(self, timeout: Duration, pending: Pending, tables: &str, why: &str) -> Error {
        let Pending { items, queued, .. } = pending;
        let text = format!(
            "{}: Timeout exceeded after {timeout:?} with {items} items not confirmed ({queued} of them not sent yet; {tables}): {why}",
            self.text()
        );
        Error::new(ErrorKind::Timeout, text)
    }
}

/// Returns the error that every call fails with after the writer has been closed.
pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Closed, "TrajectoryWriter::Close has been called.")
}
