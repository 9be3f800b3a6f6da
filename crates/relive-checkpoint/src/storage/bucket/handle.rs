//! A bucket in use: its location, its client, and the lock if this process owns it.

use std::io;
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::path::{Path, PathPart};
use parking_lot::Mutex;

use super::driver::Driver;
use super::errors::explain;
use super::lease::{Lease, uncertain};
use super::location::Location;
use super::tuning::Tuning;

/// The parts of a bucket that uploads and sources need.
pub(super) struct Bucket {
    pub(super) location: Location,
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) driver: Driver,
    pub(super) tuning: Tuning,
    pub(super) lease: Mutex<Option<Arc<Lease>>>,
}

impl Bucket {
    /// Returns the object of a file.
    pub(super) fn path(&self, name: &str) -> Path {
        self.location
            .prefix
            .parts()
            .chain(name.split('/').filter(|part| !part.is_empty()).map(PathPart::from))
            .collect()
    }

    pub(super) fn explain(&self, error: object_store::Error) -> io::Error {
        explain(&self.location, error)
    }

    /// If this process has taken the lock, checks that it still holds the lock.
    pub(super) fn confirm_lock(&self) -> io::Result<()> {
        let lease = self.lease.lock().clone();
        lease.map_or(Ok(()), |lease| lease.confirm(&self.driver))
    }

    /// Sends one request to the service.
    pub(super) fn ask<T: Send + 'static>(
        &self,
        request: impl Future<Output = object_store::Result<T>> + Send + 'static,
    ) -> io::Result<T> {
        self.driver.wait(request)?.map_err(|error| self.explain(error))
    }

    /// Sends a modifying request. If this process has taken the lock, the request is made only while the process owns
    /// it.
    pub(super) fn change<T: Send + 'static>(
        &self,
        request: impl Future<Output = object_store::Result<T>> + Send + 'static,
    ) -> io::Result<T> {
        let Some(lease) = self.lease.lock().clone() else { return self.ask(request) };
        lease.confirm(&self.driver)?;
        let done = self.driver.wait(async move { lease.while_ours(request).await })?;
        done.ok_or_else(uncertain)?.map_err(|error| self.explain(error))
    }

    pub(super) fn describe(&self, name: &str) -> String {
        let url = &self.location.url;
        if name.is_empty() { url.clone() } else { format!("{url}/{name}") }
    }
}
