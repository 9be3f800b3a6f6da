//! The displayed state, and the effect of keys on it.

use std::cmp::Ordering;

use ratatui::crossterm::event::KeyCode;
use relive_client::Error;

use crate::commands::info::rates::Rates;
use crate::commands::info::snapshot::{Snapshot, Table};

/// The last two snapshots of a server, and how to display them.
pub(super) struct Top {
    pub(super) address: String,
    before: Option<Snapshot>,
    now: Option<Snapshot>,
    /// The error of the last query, if it failed.
    pub(super) last_error: Option<String>,
    pub(super) sort: Sort,
    pub(super) is_reversed: bool,
    selected: usize,
    is_done: bool,
}

/// The key that quits.
pub(super) const END: KeyCode = KeyCode::Char('q');

/// The order in which tables are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    Name,
    Inserts,
    Samples,
    Bytes,
    Waiters,
}

impl Top {
    pub(super) fn new(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            before: None,
            now: None,
            last_error: None,
            sort: Sort::Name,
            is_reversed: false,
            selected: 0,
            is_done: false,
        }
    }

    /// Stores a snapshot. While the server does not answer, the previous snapshot is kept.
    pub(super) fn take(&mut self, snapshot: Result<Snapshot, Error>) {
        match snapshot {
            Ok(snapshot) => {
                self.before = self.now.replace(snapshot);
                self.last_error = None;
            }
            Err(error) => self.last_error = Some(error.to_string()),
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.is_done
    }

    pub(super) fn press(&mut self, key: KeyCode) {
        match key {
            END | KeyCode::Esc => self.is_done = true,
            KeyCode::Char('n') => self.sort = Sort::Name,
            KeyCode::Char('i') => self.sort = Sort::Inserts,
            KeyCode::Char('s') => self.sort = Sort::Samples,
            KeyCode::Char('m') => self.sort = Sort::Bytes,
            KeyCode::Char('w') => self.sort = Sort::Waiters,
            KeyCode::Char('r') => self.is_reversed = !self.is_reversed,
            KeyCode::Down => self.selected = self.selected.saturating_add(1),
            KeyCode::Up => self.selected = self.selected().saturating_sub(1),
            _ => {}
        }
    }

    pub(super) fn now(&self) -> Option<&Snapshot> {
        self.now.as_ref()
    }

    /// Returns the index of the selected table in [`rows`](Self::rows).
    pub(super) fn selected(&self) -> usize {
        let tables = self.now.as_ref().map_or(0, |now| now.tables().len());
        self.selected.min(tables.saturating_sub(1))
    }

    /// Returns the sorted tables, with their rates.
    pub(super) fn rows(&self) -> Vec<(Table<'_>, Rates)> {
        let Some(now) = &self.now else { return Vec::new() };
        let before = self.before.as_ref().unwrap_or(now);
        let mut rows: Vec<_> =
            now.tables().into_iter().map(|table| (table, Rates::between(before, now, table))).collect();
        rows.sort_by(|a, b| self.order(a, b));
        if self.is_reversed {
            rows.reverse();
        }
        rows
    }

    /// Names are in ascending order, numbers in descending order.
    fn order(&self, (a, a_rates): &(Table<'_>, Rates), (b, b_rates): &(Table<'_>, Rates)) -> Ordering {
        let rate = |rate: Option<f64>| rate.unwrap_or(0.0);
        let by_number = match self.sort {
            Sort::Name => Ordering::Equal,
            Sort::Inserts => rate(b_rates.inserts_per_s).total_cmp(&rate(a_rates.inserts_per_s)),
            Sort::Samples => rate(b_rates.samples_per_s).total_cmp(&rate(a_rates.samples_per_s)),
            Sort::Bytes => bytes(*b).cmp(&bytes(*a)),
            Sort::Waiters => waiters(*b).cmp(&waiters(*a)),
        };
        by_number.then_with(|| a.info.config.name.cmp(&b.info.config.name))
    }
}

pub(super) fn bytes(table: Table<'_>) -> u64 {
    table.details.map_or(0, |details| details.chunks.encoded_bytes)
}

pub(super) fn waiters(table: Table<'_>) -> u64 {
    let of = |listed: usize, more: u64| u64::try_from(listed).unwrap_or(u64::MAX).saturating_add(more);
    table.details.map_or(0, |details| of(details.waiters.len(), details.waiters_not_listed))
}
