//! Carries items to their tables.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use relive_connection::{Backoff, Error, Proposal, Result};
use relive_fleet::{Backend, Target};
use relive_tensor::Codec;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::destination::Destination;
use super::goal::{Limits, MAX_HOLD, Unconfirmed};
use super::local::LocalLink;
use super::remote::RemoteLink;
use super::stream;
use crate::chunks::{ChunkForm, ChunkSlot};
use crate::items::PendingItem;

/// Returns the error for items whose names differ from the names of their table.
pub(crate) fn other_names(why: &str) -> Error {
    Error::invalid(format!("create_item: {why}"))
}

/// Checks that the items of a table may have the proposed structure, once its server can be reached, and fails the link
/// if they may not.
async fn compare_names(backend: &Backend, link: &RemoteLink, proposal: &Proposal) {
    let Proposal { table, structure } = proposal;
    let mut backoff = Backoff::default();
    loop {
        let asked = Instant::now();
        match backend.agree_on_columns(table, structure).await {
            Ok(Some(kept)) => {
                if let Err(why) = kept.check(table, structure) {
                    link.refuse(other_names(&why));
                }
                return;
            }
            Ok(None) => return,
            Err(error) if error.is_transient() && !link.is_closing() => {
                tracing::debug!(%table, %error, "could not compare the names of a table's columns yet");
                sleep(backoff.wait_after(asked.elapsed())).await;
            }
            Err(error) if error.is_transient() => return link.refuse(error),
            Err(error) => return tracing::debug!(%table, %error, "could not name the columns of a table"),
        }
    }
}

/// Carries items in the order in which they were created, and tracks which have been confirmed.
#[derive(Debug)]
pub(crate) enum Link {
    /// A link to a server, over which a task sends queued items.
    Remote {
        /// State that the task and the writer share.
        link: Arc<RemoteLink>,
        /// Where the task runs.
        runtime: Handle,
        task: JoinHandle<()>,
    },
    /// A link to tables in this process: the calls that create items also insert them.
    Local(Box<LocalLink>),
}

impl Link {
    /// Creates a link. `codec` is the codec of the chunks, or `None` if every server supports it.
    pub(crate) fn new(backend: &Backend, limits: Limits, codec: Option<Codec>) -> Link {
        let (runtime, destination) = match backend.target() {
            Target::Process(local) => return Link::Local(Box::new(LocalLink::new(local, limits))),
            Target::Server(connection) => (connection.runtime(), Destination::one(backend, connection)),
            Target::Fleet(fleet) => (fleet.runtime(), Destination::many(Arc::clone(fleet))),
        };
        let (link, address) = (Arc::new(RemoteLink::new(limits)), Arc::from(backend.address()));
        let task = runtime.spawn(stream::run(Arc::clone(&link), destination, codec, address));
        Link::Remote { link, runtime, task }
    }

    /// Returns the form in which the link needs chunks.
    pub(crate) fn chunk_form(&self) -> ChunkForm {
        match self {
            Link::Remote { .. } => ChunkForm::Messages,
            Link::Local(link) => ChunkForm::Shared(Arc::clone(link.ledger())),
        }
    }

    /// Returns the permanent error, if any.
    pub(crate) fn check(&mut self) -> Result<()> {
        match self {
            Link::Remote { link, .. } => link.check(),
            Link::Local(link) => link.check(),
        }
    }

    /// Records a permanent error. Returns the first one.
    pub(crate) fn fail(&mut self, error: Error) -> Error {
        match self {
            Link::Remote { link, .. } => link.fail(error),
            Link::Local(link) => link.fail(error),
        }
    }

    /// Returns whether items may be pushed now without waiting. `own_bytes` is the size of those chunks of the writer
    /// that are not in any table in this process.
    pub(crate) fn has_room(&mut self, own_bytes: impl Fn() -> u64) -> Result<bool> {
        match self {
            Link::Remote { link, .. } => link.has_room(),
            Link::Local(link) => link.has_room(own_bytes),
        }
    }

    /// Appends items, whether or not there is room for them.
    pub(crate) fn push(&mut self, items: impl Iterator<Item = PendingItem>) -> Result<()> {
        match self {
            Link::Remote { link, .. } => link.push(items),
            Link::Local(link) => link.push(items),
        }
    }

    /// Proposes the structure of a table's items, without waiting. Items for a server are held back until it has
    /// answered, for at most [`MAX_HOLD`].
    pub(crate) fn propose(&self, backend: &Backend, proposal: Proposal) {
        match (self, backend.target()) {
            (Link::Remote { link, runtime, .. }, _) => {
                let (backend, hold) = (backend.clone(), RemoteLink::hold(link));
                runtime.spawn(async move {
                    let mut proposed = pin!(backend.propose(&proposal));
                    let is_done = timeout(MAX_HOLD, proposed.as_mut()).await.is_ok();
                    drop(hold);
                    if !is_done {
                        proposed.await;
                    }
                });
            }
            (Link::Local(_), Target::Process(local)) => {
                proposal.log(local.name_columns(&proposal.table, &proposal.structure));
            }
            (Link::Local(_), Target::Server(_) | Target::Fleet(_)) => {}
        }
    }

    /// Requests a check that a table's items may have this structure, without waiting. Items for a server are held back
    /// until it has answered.
    pub(crate) fn agree(&self, backend: &Backend, proposal: Proposal) {
        let Link::Remote { link, runtime, .. } = self else { return };
        let (backend, link, hold) = (backend.clone(), Arc::clone(link), RemoteLink::hold(link));
        runtime.spawn(async move {
            compare_names(&backend, &link, &proposal).await;
            drop(hold);
        });
    }

    /// Returns the chunks for which items are waiting, except the chunks of the newest `spared` items.
    pub(crate) fn awaited_chunks(&self, spared: usize) -> Vec<Arc<ChunkSlot>> {
        match self {
            Link::Remote { link, .. } => link.awaited_chunks(spared),
            Link::Local(link) => link.awaited_chunks(spared),
        }
    }

    /// Records that chunks were cut.
    pub(crate) fn chunks_were_cut(&mut self, chunks: &[Arc<ChunkSlot>]) -> Result<()> {
        match self {
            _ if chunks.is_empty() => Ok(()),
            Link::Remote { link, .. } => link.chunks_were_cut(chunks),
            Link::Local(link) => link.chunks_were_cut(chunks),
        }
    }

    /// Waits until [`has_room`](Self::has_room) is true.
    pub(crate) async fn wait_for_room(
        &mut self,
        timeout: Duration,
        own_bytes: impl Fn() -> u64,
    ) -> Result<()> {
        match self {
            Link::Remote { link, .. } => link.wait_for_room(timeout).await,
            Link::Local(link) => link.wait_for_room(timeout, own_bytes).await,
        }
    }

    /// Waits until at most `items` items are unconfirmed.
    pub(crate) async fn wait_for_pending(&mut self, items: usize, timeout: Duration) -> Result<()> {
        match self {
            Link::Remote { link, .. } => link.wait_for_pending(items, timeout).await,
            Link::Local(link) => link.wait_for_pending(items, timeout).await,
        }
    }

    /// Returns the unconfirmed items, if any.
    pub(crate) fn unconfirmed(&mut self) -> Option<Unconfirmed> {
        match self {
            Link::Remote { link, .. } => link.unconfirmed(),
            Link::Local(link) => link.unconfirmed(),
        }
    }

    /// Returns the number of unconfirmed items.
    pub(crate) fn pending_items(&self) -> usize {
        match self {
            Link::Remote { link, .. } => link.pending_items(),
            Link::Local(link) => link.pending_items(),
        }
    }

    /// Makes further calls fail. Items in transit still arrive.
    pub(crate) fn close(&mut self) {
        match self {
            Link::Remote { link, .. } => link.close(),
            Link::Local(link) => link.close(),
        }
    }

    /// Makes further calls fail and abandons unsent items. Inserts that are already waiting in a table are still
    /// carried out.
    pub(crate) fn abandon(&mut self) {
        match self {
            Link::Remote { link, task, .. } => {
                task.abort();
                link.abandon();
            }
            Link::Local(link) => link.abandon(),
        }
    }
}
