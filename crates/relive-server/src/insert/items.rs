//! Items that are being inserted, and their confirmations.

use std::sync::Arc;
use std::task::{Context, Poll};

use relive_engine::{Confirmations, Outcome};
use relive_table::NewItem;
use relive_wire::WireError;
use tonic::Status;

use crate::services::{Services, status};

/// The items of one insert stream.
#[derive(Debug)]
pub(crate) struct ItemsInFlight {
    services: Services,
    peer: Arc<str>,
    confirmations: Arc<Confirmations>,
    /// Keys to confirm.
    confirmed: Vec<u64>,
    /// Whether a table requires the stream to wait until one of its inserts is settled.
    is_paused: bool,
}

impl ItemsInFlight {
    pub(crate) fn new(services: &Services, peer: &Arc<str>) -> Self {
        Self {
            services: services.clone(),
            peer: Arc::clone(peer),
            confirmations: Arc::default(),
            confirmed: Vec::new(),
            is_paused: false,
        }
    }

    /// Returns whether the stream must not read until an insert is settled.
    pub(crate) fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Returns the keys of the items inserted since the last call.
    pub(crate) fn take_confirmed(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.confirmed)
    }

    /// Returns the number of keys to confirm.
    pub(crate) fn num_confirmed(&self) -> usize {
        self.confirmed.len()
    }

    /// Handles deferred inserts; waits for one if there is none.
    pub(crate) fn poll_settled(&mut self, cx: &Context<'_>) -> Poll<Result<(), Status>> {
        let mut outcomes = Vec::new();
        if self.confirmations.poll_settled(cx, &mut outcomes).is_pending() {
            return Poll::Pending;
        }
        Poll::Ready(self.settle(outcomes))
    }

    /// Handles all outcomes, including those after an error.
    fn settle(&mut self, outcomes: Vec<Outcome>) -> Result<(), Status> {
        let mut result = Ok(());
        for outcome in outcomes {
            self.is_paused = false;
            match outcome {
                Ok(key) => self.confirmed.push(key),
                Err(error) => result = Err(status::of_engine(&error)),
            }
        }
        result
    }

    /// Inserts items of one table in order, up to the first invalid or refused one.
    pub(crate) fn insert(
        &mut self,
        table: &str,
        items: impl Iterator<Item = Result<NewItem, WireError>>,
    ) -> Result<(), Status> {
        let table = self.services.engine().table(table);
        let table = table.map_err(|error| status::of_engine(&error))?;
        let mut unusable = None;
        // The iterator is fused, because the table polls it again after its end.
        let usable = items.map_while(|item| item.map_err(|error| unusable = Some(error)).ok()).fuse();
        let accepted = table
            .insert(usable, &self.peer, &self.confirmations, &mut self.confirmed)
            .map_err(|error| status::of_engine(&error))?;
        self.is_paused |= accepted.saturated && accepted.deferred > 0;
        match unusable {
            Some(error) => Err(status::of_wire(&error)),
            None => Ok(()),
        }
    }
}
