//! Requests for a server's tables, and the detection of servers that return with less content.

use std::sync::{Arc, Weak};
use std::time::Duration;

use relive_wire::reverb::ServerInfoRequest;
use tokio::runtime::Handle;
use tokio::time::sleep;

use crate::Result;
use crate::connection::{Connection, Shared};
use crate::report::ServerInfo;

/// The timeout of a request for a server's tables while the server is unreachable.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(1);

/// The number of responses after which a server is considered to have returned.
const ANSWERS: u32 = 2;

impl Connection {
    /// Returns the server's tables. Errors refer to the call as `operation`. Waits until a server answers.
    ///
    /// # Errors
    /// `Timeout` if no server answers within `timeout`.
    pub async fn server_info(&self, operation: &str, timeout: Duration) -> Result<ServerInfo> {
        let answer = self.call(operation, timeout, || {
            let mut stub = self.stub();
            async move { stub.server_info(ServerInfoRequest {}).await }
        });
        let info = ServerInfo::from_message(&answer.await?)?;
        self.remember(&info);
        Ok(info)
    }

    /// Compares the server's tables with their previous state, and logs a warning if the server has returned with less
    /// content.
    fn remember(&self, info: &ServerInfo) {
        for (table, now, before) in self.shared.remembered.update(info) {
            tracing::warn!(
                target: "relive",
                "the server at {} restarted without items that it had before: table {table:?} counts {now} \
                 inserts, but counted at least {before} before; it was started without a checkpoint of them, or \
                 the table was reset",
                self.address()
            );
        }
    }

    /// After a connection has broken, starts a task that checks the server's tables as soon as the server answers
    /// again. `inserts` are the caller's lower bounds on the tables' numbers of inserts.
    pub fn watch_for_return(&self, inserts: impl IntoIterator<Item = (Arc<str>, u64)>) {
        let remembered = &self.shared.remembered;
        inserts.into_iter().for_each(|(table, inserts)| {
            remembered.at_least(&table, i64::try_from(inserts).unwrap_or(i64::MAX));
        });
        let Ok(runtime) = Handle::try_current() else { return };
        if remembered.begin_watch() {
            runtime.spawn(watch(Arc::downgrade(&self.shared)));
        }
    }
}

/// Queries the server repeatedly until it answers or the connection is dropped.
async fn watch(shared: Weak<Shared>) {
    let mut answers_left = ANSWERS;
    while let Some(shared) = shared.upgrade() {
        let connection = Connection::of(shared);
        match connection.server_info("server_info", QUESTION_TIMEOUT).await {
            Err(error) if error.is_transient() => {}
            Ok(_) if answers_left > 1 => {
                // The first response may come from a server that is about to stop.
                answers_left -= 1;
                drop(connection);
                sleep(QUESTION_TIMEOUT).await;
            }
            Ok(_) | Err(_) => return connection.shared.remembered.end_watch(),
        }
    }
}
