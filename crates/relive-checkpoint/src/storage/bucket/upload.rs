//! The upload of a file to a bucket.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use object_store::path::Path;
use object_store::{Error, MultipartUpload, ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use tokio::sync::Mutex;

use super::driver::Pending;
use super::handle::Bucket;
use super::limits::{CLEAN_UP_TIMEOUT, IN_FLIGHT, MAX_PARTS};
use crate::storage::Upload;

/// A file that fits in one part is sent in one request, on condition that its name is free. Larger files are sent in
/// parts, several at a time, which stay invisible until they are combined.
pub(super) struct BucketUpload {
    bucket: Arc<Bucket>,
    path: Path,
    /// Bytes that have been written but are not in any part yet. They never exceed the size of one part.
    pending: BytesMut,
    parts: Option<Parts>,
}

impl BucketUpload {
    pub(super) fn new(bucket: Arc<Bucket>, path: Path) -> Self {
        Self { bucket, path, pending: BytesMut::new(), parts: None }
    }

    /// Sends the pending bytes as a part, once the number of parts in flight permits it.
    fn send(&mut self) -> io::Result<()> {
        let bytes = self.pending.split().freeze();
        let parts = match &mut self.parts {
            Some(parts) => parts,
            none => none.insert(Parts::begin(&self.bucket, &self.path)?),
        };
        parts.send(bytes)
    }
}

impl Upload for BucketUpload {
    fn write(&mut self, parts: &mut [IoSlice<'_>]) -> io::Result<()> {
        let part_bytes = self.bucket.tuning.part_bytes;
        for part in parts {
            let mut rest: &[u8] = part;
            while !rest.is_empty() {
                // A full part is sent only if more bytes follow, because a file of exactly one part is sent in one
                // request.
                if self.pending.len() == part_bytes {
                    self.send()?;
                }
                let (now, later) = rest.split_at(rest.len().min(part_bytes - self.pending.len()));
                self.pending.extend_from_slice(now);
                rest = later;
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        if self.parts.is_none() {
            let (store, path) = (Arc::clone(&self.bucket.store), self.path.clone());
            let bytes = self.pending.split().freeze();
            return self.bucket.change(async move { put_new(store.as_ref(), &path, bytes).await });
        }
        self.send()?;
        let parts = self.parts.take();
        parts.map_or(Ok(()), |parts| parts.complete(&self.path))
    }
}

/// Puts an object that must not exist yet.
async fn put_new(store: &dyn ObjectStore, path: &Path, bytes: Bytes) -> object_store::Result<()> {
    let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
    match store.put_opts(path, bytes.clone().into(), options).await {
        // If the response to a put was lost, the retry finds an object. If the object has the same contents, this put
        // created it.
        Err(exists @ Error::AlreadyExists { .. }) => {
            // An object of another size, which may be large, is not transferred.
            let is_same = store.head(path).await?.size == bytes.len() as u64
                && store.get(path).await?.bytes().await? == bytes;
            if is_same { Ok(()) } else { Err(exists) }
        }
        put => put.map(drop),
    }
}

/// A multipart upload that the service has started. Dropping it removes its parts there.
struct Parts {
    bucket: Arc<Bucket>,
    /// `None` once the upload has been completed. Shared with the completing work, which may be cancelled.
    upload: Option<Arc<Mutex<Box<dyn MultipartUpload>>>>,
    under_way: VecDeque<Pending<object_store::Result<()>>>,
    count: usize,
    size_bytes: u64,
}

impl Parts {
    fn begin(bucket: &Arc<Bucket>, path: &Path) -> io::Result<Self> {
        let (store, path) = (Arc::clone(&bucket.store), path.clone());
        let upload = bucket.ask(async move { store.put_multipart(&path).await })?;
        let bucket = Arc::clone(bucket);
        Ok(Self {
            bucket,
            upload: Some(Arc::new(Mutex::new(upload))),
            under_way: VecDeque::new(),
            count: 0,
            size_bytes: 0,
        })
    }

    fn send(&mut self, bytes: Bytes) -> io::Result<()> {
        if self.count == MAX_PARTS {
            let most = MAX_PARTS as u64 * self.bucket.tuning.part_bytes as u64;
            return Err(io::Error::other(format!(
                "the file is larger than {most} bytes, the limit of an upload"
            )));
        }
        if self.under_way.len() == IN_FLIGHT {
            self.wait_for_one()?;
        }
        let Some(upload) = &self.upload else { return Ok(()) };
        self.count += 1;
        self.size_bytes += bytes.len() as u64;
        // The upload's other owner uses it only to complete or abort it, after the last part.
        let part = upload.try_lock().map_err(io::Error::other)?.put_part(bytes.into());
        self.under_way.push_back(self.bucket.driver.begin(part));
        Ok(())
    }

    fn wait_for_one(&mut self) -> io::Result<()> {
        match self.under_way.pop_front() {
            Some(part) => part.wait()?.map_err(|error| self.bucket.explain(error)),
            None => Ok(()),
        }
    }

    /// Publishes the file. Services cannot make this conditional on a free name, so the name is checked first. No other
    /// process writes here while this process owns the lock.
    fn complete(mut self, path: &Path) -> io::Result<()> {
        while !self.under_way.is_empty() {
            self.wait_for_one()?;
        }
        let Some(upload) = self.upload.clone() else { return Ok(()) };
        let (store, path, size_bytes) = (Arc::clone(&self.bucket.store), path.clone(), self.size_bytes);
        self.bucket.change(async move {
            complete_new(store.as_ref(), upload.lock().await.as_mut(), &path, size_bytes).await
        })?;
        self.upload = None;
        Ok(())
    }
}

async fn complete_new(
    store: &dyn ObjectStore,
    upload: &mut dyn MultipartUpload,
    path: &Path,
    size_bytes: u64,
) -> object_store::Result<()> {
    match store.head(path).await {
        Ok(_) => {
            let source = "a file with this name already exists".into();
            return Err(Error::AlreadyExists { path: path.to_string(), source });
        }
        Err(Error::NotFound { .. }) => {}
        Err(error) => return Err(error),
    }
    match upload.complete().await {
        Ok(_) => Ok(()),
        // If the response was lost, a retry does not find the upload. No such file existed before, so an existing one
        // is from this upload.
        Err(error) => match store.head(path).await {
            Ok(there) if there.size == size_bytes => Ok(()),
            _ => Err(error),
        },
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        let Some(upload) = self.upload.take() else { return };
        let under_way = std::mem::take(&mut self.under_way);
        for part in under_way {
            // A part that arrived after the upload was aborted would not be removed.
            drop(part.wait_for(CLEAN_UP_TIMEOUT));
        }
        let abort = self.bucket.driver.begin(async move { upload.lock().await.abort().await });
        match abort.wait_for(CLEAN_UP_TIMEOUT) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "the parts of an unfinished upload remain in the bucket");
            }
            Err(error) => {
                tracing::warn!(%error, "the parts of an unfinished upload may remain in the bucket");
            }
        }
    }
}
