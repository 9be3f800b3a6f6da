//! Makes files durable while the next one is being written.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use crate::Error;
use crate::storage::Upload;

/// The limit on the number of files that wait while another one is made durable. A higher limit would keep more memory
/// dirty.
const WAITING: usize = 1;

/// A thread that finishes files, one after the other.
pub(super) struct Sealer {
    queue: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

struct Job {
    upload: Box<dyn Upload>,
    /// The file's name in messages.
    file: String,
}

impl Sealer {
    pub(super) fn new() -> Self {
        Self { queue: None, thread: None }
    }

    /// Finishes a file asynchronously. Blocks while the queue of files is full.
    ///
    /// # Errors
    /// The error of an earlier file.
    pub(super) fn seal(&mut self, upload: Box<dyn Upload>, file: String) -> Result<(), Error> {
        let queue = match &self.queue {
            Some(queue) => queue,
            None => self.start(&file)?,
        };
        match queue.send(Job { upload, file }) {
            Ok(()) => Ok(()),
            // The thread ends before its queue is empty only if there was an error.
            Err(_) => self.finish(),
        }
    }

    /// Waits until all files are finished.
    pub(super) fn finish(&mut self) -> Result<(), Error> {
        self.queue = None;
        let ended = self.thread.take().map(JoinHandle::join);
        ended.unwrap_or(Ok(Ok(()))).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    fn start(&mut self, file: &str) -> Result<&SyncSender<Job>, Error> {
        let (sender, receiver) = sync_channel(WAITING);
        let thread = std::thread::Builder::new().name("relive-seal".to_owned()).spawn(move || work(receiver));
        self.thread = Some(thread.map_err(|source| Error::storage("start a thread to write", file, source))?);
        Ok(self.queue.insert(sender))
    }
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "dropping the receiver shows the sender that this thread has ended"
)]
fn work(queue: Receiver<Job>) -> Result<(), Error> {
    for Job { upload, file } in queue.iter() {
        upload.finish().map_err(|source| Error::storage("write", &file, source))?;
    }
    Ok(())
}

impl Drop for Sealer {
    fn drop(&mut self) {
        self.queue = None;
        // A caller that drops this value early already has an error to report.
        drop(self.thread.take().map(JoinHandle::join));
    }
}
