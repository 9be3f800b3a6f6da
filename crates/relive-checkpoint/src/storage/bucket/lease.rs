//! A lock for storage that has no locks: an object that its owner rewrites regularly.
//!
//! Every write is conditional: the object must be absent, or unchanged since it was read, so that only one of several
//! contenders gets the lock. A contender that finds the lock held watches the object. If the object is rewritten in
//! time, its owner is alive; otherwise, the lock has expired and may be taken. This time is measured with the
//! contender's own clock. Clocks of different machines are compared in one case: a lock that was last written very long
//! ago ([`ABANDONED_AFTER`]) is taken without watching it. This age is the difference between the contender's current
//! time and the time at which the service recorded the write.
//!
//! A process that could not renew the lock in time must no longer act as its owner ([`Lease::confirm`]), and detects
//! when another process has taken the lock.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use object_store::path::Path;
use object_store::{
    Error, GetOptions, GetRange, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, UpdateVersion,
};
use parking_lot::Mutex;
use rand::TryRng;
use rand::rngs::SysRng;
use tokio::sync::{Mutex as AsyncMutex, Notify};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::driver::Driver;
use super::limits::{ABANDONED_AFTER, CLEAN_UP_TIMEOUT, MAX_NOTE_BYTES};
use super::note::{Note, own_process};
use super::tuning::Tuning;

/// The reason why the lock was not obtained.
pub(super) enum Refusal {
    /// The named owner holds it.
    Held(String),
    /// The object is not one of Relive's locks.
    Foreign,
    /// The service refused.
    Failed(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// A lock that this process owns for as long as it can be renewed.
pub(super) struct Lease {
    object: Object,
    tuning: Tuning,
    owner: u128,
    ownership: Mutex<Ownership>,
    /// This process's last write. The mutex is held during a write, so that renewals are sequential.
    written: AsyncMutex<WrittenLock>,
    released: Notify,
}

enum Ownership {
    /// This process owns the lock: no other process can take it before this time.
    OursUntil(Instant),
    /// The lock has been lost permanently.
    Lost { to: String },
}

struct WrittenLock {
    note: Note,
    version: UpdateVersion,
}

impl Lease {
    /// Takes the lock. This takes at most as long as a lock takes to expire.
    pub(super) async fn take(
        store: Arc<dyn ObjectStore>,
        path: Path,
        tuning: Tuning,
    ) -> Result<Arc<Self>, Refusal> {
        let object = Object { store, path };
        let owner = random()?;
        let note = Note { owner: Some(owner), who: own_process(), renewals: 0 };
        let (version, sent) = object.take(&note, tuning).await?;
        Ok(Arc::new(Self {
            object,
            tuning,
            owner,
            ownership: Mutex::new(Ownership::OursUntil(sure_until(sent, tuning))),
            written: AsyncMutex::new(WrittenLock { note, version }),
            released: Notify::new(),
        }))
    }

    /// Renews the lock until it is released or lost.
    pub(super) async fn keep(self: Arc<Self>) {
        while timeout(self.tuning.renew_every, self.released.notified()).await.is_err() {
            self.renew().await;
            if let Ownership::Lost { to } = &*self.ownership.lock() {
                tracing::error!(lock = %self.object.path, by = %to, "another server took over the lock; this \
                    one writes no more checkpoints");
                return;
            }
        }
    }

    /// # Errors
    /// Another process may own the lock.
    pub(super) fn confirm(self: &Arc<Self>, driver: &Driver) -> io::Result<()> {
        if !self.is_certain()? {
            let lease = Arc::clone(self);
            driver.wait(async move { lease.renew().await })?;
            if !self.is_certain()? {
                return Err(uncertain());
            }
        }
        Ok(())
    }

    /// Runs work that only the owner may do, for as long as this process certainly owns the lock. If ownership becomes
    /// uncertain before the work is done, cancels the work before another process can own the lock, and returns `None`.
    pub(super) async fn while_ours<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = std::pin::pin!(work);
        loop {
            let Ownership::OursUntil(end) = *self.ownership.lock() else { return None };
            match timeout_at(end, &mut work).await {
                Ok(done) => return Some(done),
                Err(_) if matches!(*self.ownership.lock(), Ownership::OursUntil(later) if later > end) => {}
                Err(_) => return None,
            }
        }
    }

    fn is_certain(&self) -> io::Result<bool> {
        match &*self.ownership.lock() {
            Ownership::OursUntil(end) => Ok(Instant::now() < *end),
            Ownership::Lost { to } => Err(io::Error::other(format!(
                "{to} has taken over the lock, so this server writes no more checkpoints; only one server can write to a location"
            ))),
        }
    }

    /// Writes the lock once. A failure leaves the state unchanged, unless it turns out that the lock belongs to another
    /// owner.
    async fn renew(&self) {
        let mut written = self.written.lock().await;
        // If the answer to a renewal was lost, the next renewal fails, and the one after it succeeds.
        for _ in 0..2 {
            let sent = Instant::now();
            let note = Note { renewals: written.note.renewals + 1, ..written.note.clone() };
            let put = self.object.update(&note, written.version.clone());
            match timeout(self.tuning.renew_every, put).await {
                Ok(Ok(version)) => {
                    *written = WrittenLock { note, version };
                    *self.ownership.lock() = Ownership::OursUntil(sure_until(sent, self.tuning));
                    return;
                }
                Ok(Err(
                    Error::Precondition { .. } | Error::AlreadyExists { .. } | Error::NotFound { .. },
                )) => match self.read_own().await {
                    Some(Ok(ours)) => *written = ours,
                    Some(Err(to)) => {
                        *self.ownership.lock() = Ownership::Lost { to };
                        return;
                    }
                    None => return,
                },
                Ok(Err(error)) => {
                    return tracing::warn!(lock = %self.object.path, %error, "cannot renew the lock");
                }
                Err(_) => {
                    return tracing::warn!(lock = %self.object.path, "the request to renew the lock got no answer");
                }
            }
        }
    }

    /// Returns the current contents of the object if this process owns the lock. Otherwise, returns the lock's owner,
    /// or `None` if the object cannot be read.
    async fn read_own(&self) -> Option<Result<WrittenLock, String>> {
        match timeout(self.tuning.renew_every, self.object.read()).await {
            Ok(Ok(Some(LockContent { note: Some(note), version, .. }))) if note.owner == Some(self.owner) => {
                Some(Ok(WrittenLock { note, version }))
            }
            Ok(Ok(Some(LockContent { note: Some(note), .. }))) => Some(Err(note.who)),
            Ok(Ok(_)) => Some(Err("someone who removed it".to_owned())),
            Ok(Err(_)) | Err(_) => None,
        }
    }

    /// Releases the lock, if this process still owns it and the service answers.
    pub(super) fn release(self: &Arc<Self>, driver: &Driver) {
        self.released.notify_one();
        let lease = Arc::clone(self);
        let work = driver.begin(async move {
            let written = lease.written.lock().await;
            let note = Note { owner: None, renewals: written.note.renewals + 1, ..written.note.clone() };
            lease.object.update(&note, written.version.clone()).await.is_ok()
        });
        if !matches!(work.wait_for(CLEAN_UP_TIMEOUT), Ok(true)) {
            tracing::warn!(lock = %self.object.path, "could not release the lock; it expires on its own");
        }
    }
}

pub(super) fn uncertain() -> io::Error {
    io::Error::other("the lock could not be renewed; another server may have taken it over")
}

/// Returns the time until which this process certainly owns the lock. A third of the lock's lifetime is reserved for
/// requests that are in flight when the lock expires.
fn sure_until(sent: Instant, tuning: Tuning) -> Instant {
    sent + tuning.expires_after * 2 / 3
}

fn random() -> Result<u128, Error> {
    let mut bytes = [0; 16];
    SysRng.try_fill_bytes(&mut bytes).map_err(|source| Error::Generic {
        store: "the operating system's random numbers",
        source: Box::new(source),
    })?;
    Ok(u128::from_le_bytes(bytes))
}

/// The lock object.
struct Object {
    store: Arc<dyn ObjectStore>,
    path: Path,
}

/// The contents of the object as read.
struct LockContent {
    /// `None` if the object is not one of Relive's locks.
    note: Option<Note>,
    version: UpdateVersion,
    age: Duration,
}

impl Object {
    /// Writes the note as soon as no other valid one exists. Returns a time before the note was written.
    async fn take(&self, note: &Note, tuning: Tuning) -> Result<(UpdateVersion, Instant), Refusal> {
        let mut watched: Option<(UpdateVersion, Instant)> = None;
        // The first attempt to write the note. If its answer was lost, it may have been the one that wrote the note.
        let mut first_sent: Option<Instant> = None;
        loop {
            let sent = Instant::now();
            let Some(found) = self.read().await? else {
                first_sent.get_or_insert(sent);
                match self.put(note, PutMode::Create).await {
                    Ok(version) => return Ok((version, sent)),
                    // Another process wrote the object, or this process did and the answer was lost. The next read of
                    // the object shows which of the two is the case.
                    Err(Error::AlreadyExists { .. }) => continue,
                    Err(error) => return Err(error.into()),
                }
            };
            let there = found.note.ok_or(Refusal::Foreign)?;
            if there.owner == note.owner {
                return Ok((found.version, first_sent.unwrap_or(sent)));
            }
            let expired = matches!(&watched, Some((version, since))
                if *version == found.version && since.elapsed() >= tuning.expires_after);
            if there.owner.is_none() || expired || found.age >= ABANDONED_AFTER {
                first_sent.get_or_insert(sent);
                match self.update(note, found.version).await {
                    Ok(version) => return Ok((version, sent)),
                    Err(Error::Precondition { .. } | Error::AlreadyExists { .. }) => continue,
                    Err(error) => return Err(error.into()),
                }
            }
            match &watched {
                Some((version, _)) if *version != found.version => return Err(Refusal::Held(there.who)),
                Some(_) => {}
                None => {
                    let seconds = tuning.expires_after.as_secs();
                    tracing::info!(lock = %self.path, by = %there.who, "locked; waiting up to {seconds} s to \
                        see whether its owner is alive");
                    watched = Some((found.version, Instant::now()));
                }
            }
            sleep(tuning.renew_every / 5).await;
        }
    }

    async fn read(&self) -> Result<Option<LockContent>, Error> {
        // Whatever the size of the object is, no more than this is transferred.
        let range = Some(GetRange::Bounded(0..MAX_NOTE_BYTES));
        let options = GetOptions { range, ..GetOptions::default() };
        let found = match self.store.get_opts(&self.path, options).await {
            Ok(found) => found,
            Err(Error::NotFound { .. }) => return Ok(None),
            // An empty object has no such range.
            Err(error) => match self.store.head(&self.path).await {
                Ok(meta) if meta.size == 0 => {
                    let version = UpdateVersion { e_tag: meta.e_tag, version: meta.version };
                    let age = age(meta.last_modified.timestamp());
                    return Ok(Some(LockContent { note: None, version, age }));
                }
                _ => return Err(error),
            },
        };
        let version = UpdateVersion { e_tag: found.meta.e_tag.clone(), version: found.meta.version.clone() };
        let age = age(found.meta.last_modified.timestamp());
        let text = if found.meta.size <= MAX_NOTE_BYTES { Some(found.bytes().await?) } else { None };
        let note = text.and_then(|bytes| Note::parse(std::str::from_utf8(&bytes).ok()?));
        Ok(Some(LockContent { note, version, age }))
    }

    async fn update(&self, note: &Note, version: UpdateVersion) -> Result<UpdateVersion, Error> {
        self.put(note, PutMode::Update(version)).await
    }

    async fn put(&self, note: &Note, mode: PutMode) -> Result<UpdateVersion, Error> {
        let options = PutOptions { mode, ..PutOptions::default() };
        let put = self.store.put_opts(&self.path, note.to_string().into(), options).await?;
        Ok(UpdateVersion { e_tag: put.e_tag, version: put.version })
    }
}

/// Returns the time that has passed since a Unix time, or zero for a future time.
fn age(seconds: i64) -> Duration {
    let then = UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    SystemTime::now().duration_since(then).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::bucket::faults::{Fault, Faulty, QUICK, Step};

    #[test]
    fn a_lock_whose_answer_was_lost_is_owned_from_its_first_write() {
        let store = Faulty::default();
        store.fail(Step::Put, "relive.lock", Fault::Unanswered);
        let (written, retry) = store.hold_put("relive.lock");
        let object = Object { store: Arc::new(store), path: Path::from("relive.lock") };
        let taking = std::thread::spawn(move || {
            let note = Note { owner: Some(1), who: "process 1 on a".to_owned(), renewals: 0 };
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(object.take(&note, QUICK)).ok().unwrap().1
        });
        written.recv().unwrap();
        let after = Instant::now();
        retry.send(()).unwrap();
        assert!(taking.join().unwrap() < after);
    }
}
