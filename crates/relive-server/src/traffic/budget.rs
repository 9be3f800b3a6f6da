//! The view of the account for connections and their streams.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::account::Traffic;
use super::load::Load;
use super::meter::Client;
use super::wait::{QueuePlace, StreamAccount};
use super::windows::Window;

/// The view of one connection for its streams. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionBudget {
    traffic: Arc<Traffic>,
    client: Arc<Client>,
    window: Arc<Window>,
}

impl Traffic {
    /// Records a new connection.
    pub(crate) fn enter(self: &Arc<Self>, peer: &Arc<str>) -> ConnectionBudget {
        let window = Arc::new(Window::new(Arc::clone(&self.windows)));
        let host = self.host_of(peer);
        ConnectionBudget::new(Arc::clone(self), Arc::new(Client::new(Arc::clone(peer), host)), window)
    }
}

impl ConnectionBudget {
    pub(super) fn new(traffic: Arc<Traffic>, client: Arc<Client>, window: Arc<Window>) -> Self {
        Self { traffic, client, window }
    }

    /// Returns the unread bytes of the connection.
    pub(crate) fn window(&self) -> &Arc<Window> {
        &self.window
    }

    /// Resolves when the connection must end because others are waiting for the memory that it holds.
    pub(crate) async fn cut(&self) {
        self.client.is_cut().await;
    }

    /// Returns the account for one stream.
    pub(crate) fn stream_budget(&self) -> StreamBudget {
        let traffic = Arc::clone(&self.traffic);
        let meter = traffic.register(&self.client);
        StreamBudget { account: Arc::new(StreamAccount { traffic, meter }), waiting: None }
    }
}

/// The object through which one stream waits for room.
#[derive(Debug)]
pub(crate) struct StreamBudget {
    account: Arc<StreamAccount>,
    waiting: Option<QueuePlace>,
}

impl StreamBudget {
    /// Takes room for `bytes` as soon as it is available. The previous load must already be dropped.
    pub(crate) fn poll_take(&mut self, bytes: u64, cx: &mut Context<'_>) -> Poll<Load> {
        let account = &self.account;
        let taken = QueuePlace::poll(&mut self.waiting, account, None, cx, || {
            account.traffic.begin(&account.meter, bytes)
        });
        taken.map(|()| {
            account.meter.begin(bytes, account.traffic.now_ms());
            Load::new(Arc::clone(account), bytes)
        })
    }

    /// Takes room for `bytes` at once, even beyond the bound. The bytes are already in memory, so waiting would not
    /// save them. They make other streams wait, and the client must then transfer them in time.
    pub(crate) fn take_now(&self, bytes: u64) -> Load {
        let account = &self.account;
        account.traffic.take_now(bytes);
        account.meter.begin(bytes, account.traffic.now_ms());
        Load::new(Arc::clone(account), bytes)
    }

    /// Like [`poll_take`](Self::poll_take). Dropping the future ends the wait.
    pub(crate) async fn take(&mut self, bytes: u64) -> Load {
        let attempt = Attempt(self);
        poll_fn(|cx| attempt.0.poll_take(bytes, cx)).await
    }
}

/// Ends an abandoned wait.
struct Attempt<'a>(&'a mut StreamBudget);

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.0.waiting = None;
    }
}
