//! An in-memory store behind a service that fails on demand.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use async_trait::async_trait;
use futures_core::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, oneshot};

use super::limits::PART_BYTES;
use super::location::Location;
use super::tuning::Tuning;
use crate::storage::BucketStorage;

/// Settings with which locks expire quickly, but not so quickly that tests fail on busy machines.
pub(crate) const QUICK: Tuning = Tuning {
    renew_every: Duration::from_millis(50),
    expires_after: Duration::from_millis(1500),
    part_bytes: PART_BYTES,
};

/// Settings with which nothing expires during a test, and with parts so small that even small files have several.
pub(crate) const SLOW: Tuning = Tuning {
    renew_every: Duration::from_secs(1000),
    expires_after: Duration::from_secs(10_000),
    part_bytes: 1000,
};

/// Returns the place `name` in a store.
pub(crate) fn at(store: &Faulty, name: &str, tuning: Tuning) -> BucketStorage {
    let location = Location::parse(&format!("s3://bucket/{name}")).unwrap().unwrap();
    BucketStorage::on(Arc::new(store.clone()), location, tuning).unwrap()
}

/// A request to a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Put,
    Begin,
    Part,
    Complete,
    Abort,
    Get,
    List,
    Delete,
}

/// How a request fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The service does nothing.
    Refused,
    /// The service performs the request, but the answer is lost.
    Unanswered,
    /// The service neither performs nor answers the request.
    Hangs,
}

/// Which requests of any kind fail, counted from the moment at which this was set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum RequestFailure {
    #[default]
    None,
    Once(usize, Fault),
    /// The network is down, or this process is dead.
    From(usize),
}

/// Objects in memory, and a faulty service.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faulty {
    pub(crate) objects: Arc<InMemory>,
    plan: Arc<Plan>,
}

#[derive(Debug, Default)]
struct Plan {
    faults: Mutex<Vec<(Step, Path, Fault)>>,
    failure: Mutex<RequestFailure>,
    steps: AtomicUsize,
    /// Uploads that were neither completed nor aborted.
    open: AtomicUsize,
    /// If set, uploads of parts wait for a permit of this semaphore.
    gate: Mutex<Option<Arc<Semaphore>>>,
    held: Mutex<Option<DelayedPut>>,
    /// The number of bytes in objects that were read.
    read_bytes: AtomicU64,
    parts_under_way: AtomicUsize,
    most_parts_under_way: AtomicUsize,
}

/// A delayed put.
#[derive(Debug)]
struct DelayedPut {
    path: Path,
    arrived: mpsc::Sender<()>,
    go: oneshot::Receiver<()>,
}

impl Faulty {
    /// Delays the next put to that path until the test releases it, or drops the sender. If its answer is to be lost,
    /// the put is performed at once, and its repetition is delayed.
    pub(crate) fn hold_put(&self, path: &str) -> (mpsc::Receiver<()>, oneshot::Sender<()>) {
        let (arrived, arrival) = mpsc::channel();
        let (release, go) = oneshot::channel();
        *self.plan.held.lock() = Some(DelayedPut { path: path.into(), arrived, go });
        (arrival, release)
    }

    /// Makes all such requests for the named object fail from now on.
    pub(crate) fn fail(&self, step: Step, path: &str, fault: Fault) {
        self.plan.faults.lock().push((step, path.into(), fault));
    }

    pub(crate) fn clear_failure(&self) {
        self.plan.faults.lock().clear();
    }

    pub(crate) fn set_failure(&self, failure: RequestFailure) {
        *self.plan.failure.lock() = failure;
        self.plan.steps.store(0, Ordering::SeqCst);
    }

    /// Requests since [`Self::set_failure`].
    pub(crate) fn steps(&self) -> usize {
        self.plan.steps.load(Ordering::SeqCst)
    }

    pub(crate) fn open_uploads(&self) -> usize {
        self.plan.open.load(Ordering::SeqCst)
    }

    pub(crate) fn read_bytes(&self) -> u64 {
        self.plan.read_bytes.load(Ordering::SeqCst)
    }

    /// Makes uploads of parts wait for a permit from now on.
    pub(crate) fn close_gate(&self) -> Arc<Semaphore> {
        Arc::clone(self.plan.gate.lock().insert(Arc::new(Semaphore::new(0))))
    }

    pub(crate) fn parts_under_way(&self) -> usize {
        self.plan.parts_under_way.load(Ordering::SeqCst)
    }

    pub(crate) fn most_parts_under_way(&self) -> usize {
        self.plan.most_parts_under_way.load(Ordering::SeqCst)
    }

    /// Performs work as another client, without failures.
    pub(crate) fn directly<T>(&self, work: impl AsyncFnOnce(&InMemory) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(work(&self.objects))
    }

    /// Removes the lock, as an operator would after the death of its owner.
    pub(crate) fn remove_lock(&self, place: &str) {
        let path = Path::from(format!("{place}/relive.lock"));
        let _ = self.directly(async |objects| objects.delete(&path).await);
    }
}

impl Plan {
    fn fault(&self, step: Step, path: &Path) -> Option<Fault> {
        let number = self.steps.fetch_add(1, Ordering::SeqCst);
        match *self.failure.lock() {
            RequestFailure::Once(at, fault) if number == at => return Some(fault),
            RequestFailure::From(at) if number >= at => return Some(Fault::Refused),
            _ => {}
        }
        self.faults.lock().iter().find(|fault| fault.0 == step && fault.1 == *path).map(|fault| fault.2)
    }

    async fn run<T>(&self, step: Step, path: &Path, work: impl Future<Output = Result<T>>) -> Result<T> {
        match self.fault(step, path) {
            None => work.await,
            Some(Fault::Refused) => Err(broken(step)),
            Some(Fault::Unanswered) => work.await.and(Err(broken(step))),
            Some(Fault::Hangs) => std::future::pending().await,
        }
    }
}

fn broken(step: Step) -> Error {
    Error::Generic { store: "test", source: format!("{step:?} was made to fail").into() }
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("faulty")
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let held = self.plan.held.lock().take_if(|held| held.path == *path);
        let wait = async {
            if let Some(DelayedPut { arrived, go, .. }) = held {
                let _ = arrived.send(());
                let _ = go.await;
            }
        };
        let put = || self.objects.put_opts(path, payload.clone(), options.clone());
        let fault = self.plan.fault(Step::Put, path);
        // Clients of real services retry.
        if fault == Some(Fault::Unanswered) {
            put().await?;
            wait.await;
            return put().await;
        }
        wait.await;
        match fault {
            None => put().await,
            Some(Fault::Hangs) => std::future::pending().await,
            Some(_) => Err(broken(Step::Put)),
        }
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let begun = self.plan.run(Step::Begin, path, self.objects.put_multipart_opts(path, options)).await?;
        self.plan.open.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(FaultyUpload { upload: begun, path: path.clone(), plan: Arc::clone(&self.plan) }))
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        let is_head = options.head;
        let got = self.plan.run(Step::Get, path, self.objects.get_opts(path, options)).await?;
        let bytes = if is_head { 0 } else { got.range.end - got.range.start };
        self.plan.read_bytes.fetch_add(bytes, Ordering::SeqCst);
        Ok(got)
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        match self.plan.fault(Step::Delete, &Path::default()) {
            None => self.objects.delete_stream(paths),
            Some(_) => Box::pin(tokio_stream::once(Err(broken(Step::Delete)))),
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.objects.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let path = prefix.cloned().unwrap_or_default();
        self.plan.run(Step::List, &path, self.objects.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.objects.copy_opts(from, to, options).await
    }
}

#[derive(Debug)]
struct FaultyUpload {
    upload: Box<dyn MultipartUpload>,
    path: Path,
    plan: Arc<Plan>,
}

#[async_trait]
impl MultipartUpload for FaultyUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (plan, path) = (Arc::clone(&self.plan), self.path.clone());
        let part = self.upload.put_part(data);
        Box::pin(async move {
            let under_way = plan.parts_under_way.fetch_add(1, Ordering::SeqCst) + 1;
            plan.most_parts_under_way.fetch_max(under_way, Ordering::SeqCst);
            let gate = plan.gate.lock().clone();
            if let Some(gate) = gate {
                gate.acquire().await.expect("nobody closes it").forget();
            }
            let done = plan.run(Step::Part, &path, part).await;
            plan.parts_under_way.fetch_sub(1, Ordering::SeqCst);
            done
        })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let done = self.plan.run(Step::Complete, &self.path, self.upload.complete()).await?;
        self.plan.open.fetch_sub(1, Ordering::SeqCst);
        Ok(done)
    }

    async fn abort(&mut self) -> Result<()> {
        self.plan.run(Step::Abort, &self.path, self.upload.abort()).await?;
        self.plan.open.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }
}
