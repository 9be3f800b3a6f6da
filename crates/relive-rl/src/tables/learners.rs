//! The table that describes how other learners join a run.

use std::fmt;
use std::time::Duration;

use relive_client::blocking::Client;
use relive_env::State;
use relive_table::TableConfig;

use super::item;
use crate::identity::Identity;
use crate::{Result, RlError, state};

/// The table with one item that describes how to join the run.
const TABLE: &str = "learners";
const WHAT: &str = "the item of the table `learners`";

/// The timeout for the item, which is written before learners are started.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The data with which learners join a run.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Joining {
    /// The number of learners, including learner 0.
    pub(crate) count: u32,
    /// The address of the meeting.
    pub(crate) meeting: String,
    /// The token of the meeting.
    pub(crate) token: String,
    /// The number of workers.
    pub(crate) workers: u64,
    /// The run's total of environment steps.
    pub(crate) env_steps: u64,
}

/// Keeps the token out of logs.
impl fmt::Debug for Joining {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Joining")
            .field("count", &self.count)
            .field("meeting", &self.meeting)
            .finish_non_exhaustive()
    }
}

pub(crate) fn table() -> TableConfig {
    TableConfig::new(TABLE).max_size(1)
}

impl Joining {
    pub(crate) fn put(&mut self, client: &Client, identity: &Identity) -> Result<()> {
        item::put(client, TABLE, (identity, &state::save(|state| self.visit(state))), &|| true)
    }

    /// # Errors
    /// There is no such item, or the server is lost.
    pub(crate) fn get(client: &Client) -> Result<(Identity, Joining)> {
        let columns = item::newest_if_started(client, TABLE, TIMEOUT)?
            .ok_or(RlError::Order { call: "another learner", needs: "a run of several learners" })?;
        let (identity, bytes) = item::read(&columns, WHAT)?;
        let mut joining = Joining::default();
        state::restore(WHAT, &bytes, |state| joining.visit(state))?;
        Ok((identity, joining))
    }

    fn visit(&mut self, state: &mut State<'_>) {
        state.field(&mut self.count);
        for text in [&mut self.meeting, &mut self.token] {
            let mut bytes = std::mem::take(text).into_bytes();
            state.bytes(&mut bytes);
            *text = String::from_utf8_lossy(&bytes).into_owned();
        }
        state.field(&mut self.workers);
        state.field(&mut self.env_steps);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_never_printed() {
        let shown = format!("{:?}", Joining { token: "secret".into(), ..Joining::default() });
        assert!(!shown.contains("secret"), "{shown}");
    }
}
