//! A store that fails on demand.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures_core::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// What a store was asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Put,
    Begin,
    Part,
    Complete,
    Abort,
    Get,
    List,
}

/// How a step fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Nothing is done.
    Refused,
    /// It is done, and the answer is lost.
    Unanswered,
    /// It is neither done nor answered.
    Hangs,
}

/// Objects in memory, behind a service that has faults.
#[derive(Debug, Clone, Default)]
pub(super) struct Faulty {
    pub(super) objects: Arc<InMemory>,
    plan: Arc<Plan>,
}

#[derive(Debug, Default)]
struct Plan {
    faults: Mutex<Vec<(Step, Path, Fault)>>,
    /// Uploads that were begun and neither completed nor aborted.
    open: AtomicUsize,
    /// Parts wait for a permit of it.
    gate: Mutex<Option<Arc<Semaphore>>>,
    parts_under_way: AtomicUsize,
    most_parts_under_way: AtomicUsize,
}

impl Faulty {
    /// All such steps with objects of that name fail from now on.
    pub(super) fn fail(&self, step: Step, path: &str, fault: Fault) {
        self.plan.faults.lock().push((step, path.into(), fault));
    }

    pub(super) fn heal(&self) {
        self.plan.faults.lock().clear();
    }

    pub(super) fn open_uploads(&self) -> usize {
        self.plan.open.load(Ordering::SeqCst)
    }

    /// From now on parts travel only with a permit.
    pub(super) fn close_gate(&self) -> Arc<Semaphore> {
        Arc::clone(self.plan.gate.lock().insert(Arc::new(Semaphore::new(0))))
    }

    pub(super) fn parts_under_way(&self) -> usize {
        self.plan.parts_under_way.load(Ordering::SeqCst)
    }

    pub(super) fn most_parts_under_way(&self) -> usize {
        self.plan.most_parts_under_way.load(Ordering::SeqCst)
    }
}

impl Plan {
    async fn run<T>(&self, step: Step, path: &Path, work: impl Future<Output = Result<T>>) -> Result<T> {
        let planned = |fault: &&(Step, Path, Fault)| fault.0 == step && fault.1 == *path;
        let fault = self.faults.lock().iter().find(planned).map(|fault| fault.2);
        match fault {
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
        let put = || self.objects.put_opts(path, payload.clone(), options.clone());
        match self.plan.run(Step::Put, path, put()).await {
            // As the client of a real service does it.
            Err(Error::Generic { .. })
                if self.plan.faults.lock().iter().any(|fault| fault.2 == Fault::Unanswered) =>
            {
                put().await
            }
            answer => answer,
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
        self.plan.run(Step::Get, path, self.objects.get_opts(path, options)).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.objects.delete_stream(paths)
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
