//! A place in a bucket.

use std::io;
use std::sync::Arc;

use object_store::{ObjectStore, ObjectStoreExt};
use parking_lot::Mutex;

use super::driver::Driver;
use super::handle::Bucket;
use super::lease::{Lease, Refusal};
use super::location::Location;
use super::source::BucketSource;
use super::tuning::Tuning;
use super::upload::BucketUpload;
use crate::storage::seam::Entry;
use crate::storage::{Source, Storage, Upload, WriterLock};
use crate::{Error, ErrorKind};

/// The lock object.
const LOCK: &str = "relive.lock";

/// All objects in a bucket whose names start with a given prefix.
pub(crate) struct BucketStorage {
    bucket: Arc<Bucket>,
}

impl BucketStorage {
    /// Returns `None` if the URL's service is unknown. Makes no request.
    pub(crate) fn open(url: &str) -> Result<Option<Self>, Error> {
        let Some(location) = Location::parse(url)? else { return Ok(None) };
        let store = location.client()?;
        Self::on(store, location, Tuning::default()).map(Some)
    }

    pub(super) fn on(store: Arc<dyn ObjectStore>, location: Location, tuning: Tuning) -> Result<Self, Error> {
        let driver = Driver::start().map_err(|source| Error::storage("use", &location.url, source))?;
        Ok(Self { bucket: Arc::new(Bucket { location, store, driver, tuning, lease: Mutex::new(None) }) })
    }
}

impl Storage for BucketStorage {
    fn create(&self, name: &str) -> io::Result<Box<dyn Upload>> {
        self.bucket.confirm_lock()?;
        Ok(Box::new(BucketUpload::new(Arc::clone(&self.bucket), self.bucket.path(name))))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Source>> {
        let (store, path) = (Arc::clone(&self.bucket.store), self.bucket.path(name));
        let meta = self.bucket.ask(async move { store.head(&path).await })?;
        Ok(Box::new(BucketSource::new(Arc::clone(&self.bucket), meta)))
    }

    fn list(&self, folder: &str) -> io::Result<Vec<Entry>> {
        let (store, path) = (Arc::clone(&self.bucket.store), self.bucket.path(folder));
        let listed = self.bucket.ask(async move { store.list_with_delimiter(Some(&path)).await })?;
        let entry = |object: object_store::ObjectMeta| {
            let file = object.location.filename()?;
            let name = if folder.is_empty() { file.to_owned() } else { format!("{folder}/{file}") };
            Some(Entry { name, size_bytes: object.size })
        };
        Ok(listed.objects.into_iter().filter_map(entry).collect())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let (store, path) = (Arc::clone(&self.bucket.store), self.bucket.path(name));
        self.bucket.change(async move { store.delete(&path).await })
    }

    fn lock(&self) -> Result<Box<dyn WriterLock>, Error> {
        let bucket = &self.bucket;
        let taking = Lease::take(Arc::clone(&bucket.store), bucket.path(LOCK), bucket.tuning);
        let taken = bucket.driver.wait(taking).map_err(|source| self.cannot_lock(source))?;
        let lease = taken.map_err(|refusal| self.refused(refusal))?;
        drop(bucket.driver.begin(Arc::clone(&lease).keep()));
        *bucket.lease.lock() = Some(Arc::clone(&lease));
        Ok(Box::new(LockGuard { bucket: Arc::clone(bucket), lease }))
    }

    fn describe(&self, name: &str) -> String {
        self.bucket.describe(name)
    }
}

impl BucketStorage {
    fn refused(&self, refusal: Refusal) -> Error {
        let root = &self.bucket.location.url;
        match refusal {
            Refusal::Held(who) => Error::plain(
                ErrorKind::InUse,
                format!(
                    "{root}: {who} writes its checkpoints here, and renews its lock {LOCK}; stop it, or use another prefix"
                ),
            ),
            Refusal::Foreign => Error::plain(
                ErrorKind::Location,
                format!(
                    "cannot use {root}: its {LOCK} is not a lock of Relive; use another prefix, or remove the file"
                ),
            ),
            Refusal::Failed(error) => self.cannot_lock(self.bucket.explain(error)),
        }
    }

    fn cannot_lock(&self, source: io::Error) -> Error {
        Error::storage("write", &self.bucket.describe(LOCK), source)
    }
}

/// The lock, which is held until this value is dropped.
struct LockGuard {
    bucket: Arc<Bucket>,
    lease: Arc<Lease>,
}

impl WriterLock for LockGuard {}

impl Drop for LockGuard {
    fn drop(&mut self) {
        *self.bucket.lease.lock() = None;
        self.lease.release(&self.bucket.driver);
    }
}
