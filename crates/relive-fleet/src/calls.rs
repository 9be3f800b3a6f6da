//! Calls with one request and one response, made to the servers that they concern.
//!
//! Each call returns a boxed future, because it recursively makes the same call to single servers.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use relive_connection::{
    Connection, Deadline, Error, ErrorKind, Result, ServerInfo, ServerStatus, Transport, Waits,
};
use relive_table::{Changed, CheckpointStatus, ItemStructure, TableChange, TableConfig};
use relive_tensor::Nest;

use crate::ask::{Answers, Call};
use crate::fleet::Fleet;
use crate::member::Member;
use crate::merge;

impl Fleet {
    /// Returns the tables of all reachable servers, combined.
    pub fn server_info<'a>(&'a self, call: &'static str, timeout: Duration) -> Call<'a, ServerInfo> {
        Box::pin(async move {
            let (up, timeout) = self.wait_for_one(call, timeout).await?;
            let pending =
                self.ask(call, &up, move |server, _| async move { server.server_info(call, timeout).await });
            Ok(merge::infos(pending.await.present()?.into_iter().map(|(_, info)| info)))
        })
    }

    /// Returns the combined status of all reachable servers.
    pub fn status(&self, timeout: Duration) -> Call<'_, ServerStatus> {
        Box::pin(async move {
            let (up, timeout) = self.wait_for_one("status", timeout).await?;
            let pending =
                self.ask("status", &up, move |server, _| async move { server.status(timeout).await });
            merge::statuses(pending.await.present()?).ok_or_else(|| self.no_server_error("status"))
        })
    }

    /// Returns the transport to the servers if it is the same for all of them, and otherwise the slowest of their
    /// transports.
    pub fn negotiate(&self, timeout: Duration) -> Call<'_, Transport> {
        Box::pin(async move {
            let (up, _) = self.wait_for_one("negotiate", timeout).await?;
            let pending = self.ask("negotiate", &up, move |server, _| async move {
                server.dialer().await.map(|_| server.transport())
            });
            let ways = pending.await.present()?;
            Ok(Transport::slowest(ways.into_iter().map(|(_, way)| way)))
        })
    }

    /// Returns the transport of bulk data, if it is known.
    pub fn transport(&self) -> Transport {
        Transport::slowest(self.up().iter().map(|server| server.connection().transport()))
    }

    /// Sends each key to the server that has it, and unknown keys to all servers.
    pub fn mutate_priorities<'a>(
        &'a self,
        table: &'a str,
        updates: &'a [(u64, f64)],
        deletes: &'a [u64],
        timeout: Duration,
    ) -> Call<'a, ()> {
        Box::pin(async move {
            let operation = "mutate_priorities";
            let (up, timeout) = self.wait_for_one(operation, timeout).await?;
            let (parts, concerned) = self.split_by_owner(up, updates, deletes);
            let pending = self.ask(operation, &concerned, |connection, server| {
                let (table, part) =
                    (table.to_owned(), parts.get(&server.number()).cloned().unwrap_or_default());
                async move {
                    let Part { updates, deletes } = part;
                    connection.mutate_priorities(&table, &updates, &deletes, timeout).await
                }
            });
            let answers: Answers<()> = pending.await;
            for server in answers.absent() {
                let lost = parts.get(&server.number()).map_or(0, Part::len);
                server.lost_updates.fetch_add(lost, Ordering::Relaxed);
            }
            answers.none_refused()
        })
    }

    /// Returns each server's part of the call, and the servers among `up` that have a part.
    fn split_by_owner(
        &self,
        up: Vec<Arc<Member>>,
        updates: &[(u64, f64)],
        deletes: &[u64],
    ) -> (HashMap<u32, Part>, Vec<Arc<Member>>) {
        let mut parts: HashMap<u32, Part> =
            up.iter().map(|server| (server.number(), Part::default())).collect();
        for (key, priority) in updates {
            self.add_to_owner(*key, &mut parts, |part| part.updates.push((*key, *priority)));
        }
        for key in deletes {
            self.add_to_owner(*key, &mut parts, |part| part.deletes.push(*key));
        }
        let concerned = |server: &Arc<Member>| parts.get(&server.number()).is_some_and(|part| part.len() > 0);
        let concerned = up.into_iter().filter(concerned).collect();
        (parts, concerned)
    }

    fn add_to_owner(&self, key: u64, parts: &mut HashMap<u32, Part>, mut add: impl FnMut(&mut Part)) {
        let owner = self.owners.find(key).and_then(|number| self.member(number));
        match owner.map(|owner| (parts.get_mut(&owner.number()), owner)) {
            Some((Some(part), _)) => add(part),
            Some((None, owner)) => drop(owner.lost_updates.fetch_add(1, Ordering::Relaxed)),
            None => parts.values_mut().for_each(add),
        }
    }

    /// Removes all items of `table` on all servers.
    pub fn reset<'a>(&'a self, table: &'a str, timeout: Duration) -> Call<'a, ()> {
        Box::pin(async move {
            let (servers, timeout) = self.settle("reset", timeout).await?;
            let pending = self.ask("reset", &servers, |server, _| {
                let table = table.to_owned();
                async move { server.reset(&table, timeout).await }
            });
            pending.await.all().map(drop)
        })
    }

    /// Returns the paths of all checkpoints, as a comma-separated list of `address=path`.
    pub fn checkpoint(&self, timeout: Duration) -> Call<'_, String> {
        Box::pin(async move {
            let (servers, timeout) = self.settle("checkpoint", timeout).await?;
            let pending =
                self.ask(
                    "checkpoint",
                    &servers,
                    move |server, _| async move { server.checkpoint(timeout).await },
                );
            let paths = pending.await.all()?;
            let paths: Vec<String> =
                paths.into_iter().map(|(server, path)| format!("{}={path}", server.address())).collect();
            Ok(paths.join(","))
        })
    }

    /// Returns the combined state of checkpoints: the oldest ones and the worst results.
    pub fn checkpoint_status(&self, timeout: Duration) -> Call<'_, CheckpointStatus> {
        Box::pin(async move {
            let call = "checkpoint_status";
            let (up, timeout) = self.wait_for_one(call, timeout).await?;
            let pending =
                self.ask(call, &up, move |server, _| async move { server.checkpoint_status(timeout).await });
            let statuses = pending.await.present()?.into_iter().map(|(_, status)| status);
            merge::checkpoints(statuses).ok_or_else(|| self.no_server_error(call))
        })
    }

    /// Changes the rules of `table` on all servers.
    pub fn change_table<'a>(
        &'a self,
        table: &'a str,
        change: &'a TableChange,
        timeout: Duration,
    ) -> Call<'a, Changed> {
        Box::pin(async move {
            let (servers, timeout) = self.settle("change_table", timeout).await?;
            let pending = self.ask("change_table", &servers, |server, _| {
                let (table, change) = (table.to_owned(), change.clone());
                async move { server.change_table(&table, &change, timeout).await }
            });
            Ok(merge::changed(pending.await.all()?.into_iter().map(|(_, changed)| changed)))
        })
    }

    /// Adds an empty table on all servers. A call after a partial failure adds it where it is missing.
    pub fn add_table(&self, config: TableConfig, timeout: Duration) -> Call<'_, ()> {
        Box::pin(async move {
            let (servers, timeout) = self.settle("add_table", timeout).await?;
            let pending = self.ask("add_table", &servers, |server, _| {
                let config = config.clone();
                async move { add_unless_present(&server, &config, timeout).await }
            });
            let present: Vec<Option<Error>> =
                pending.await.all()?.into_iter().map(|(_, present)| present).collect();
            match present
                .into_iter()
                .collect::<Option<Vec<Error>>>()
                .and_then(|errors| errors.into_iter().next())
            {
                Some(error) => Err(error),
                None => Ok(()),
            }
        })
    }

    /// Drops `table` on all servers.
    pub fn drop_table<'a>(&'a self, table: &'a str, timeout: Duration) -> Call<'a, ()> {
        Box::pin(async move {
            let (servers, timeout) = self.settle("drop_table", timeout).await?;
            let pending = self.ask("drop_table", &servers, |server, _| {
                let table = table.to_owned();
                async move { server.drop_table(&table, timeout).await }
            });
            pending.await.all_with_table()
        })
    }

    /// Returns whether all reachable servers keep the structure.
    pub fn name_columns<'a>(
        &'a self,
        table: &'a str,
        structure: &'a Nest<()>,
        timeout: Duration,
    ) -> Call<'a, bool> {
        Box::pin(async move {
            let (up, timeout) = self.wait_for_one("name_columns", timeout).await?;
            let pending = self.ask("name_columns", &up, |server, _| {
                let (table, structure) = (table.to_owned(), structure.clone());
                async move { server.name_columns(&table, &structure, timeout).await }
            });
            Ok(pending.await.present()?.into_iter().all(|(_, kept)| kept))
        })
    }

    /// Returns the structure of all items of `table`, for a writer that adopts it. Queries the servers in sequence, so
    /// that if two writers do this concurrently, the same writer is first on all servers.
    pub fn agree_on_columns<'a>(
        &'a self,
        table: &'a str,
        structure: &'a Nest<()>,
        timeout: Duration,
    ) -> Call<'a, Option<Arc<ItemStructure>>> {
        Box::pin(async move {
            let (up, timeout) = self.wait_for_one("name_columns", timeout).await?;
            let deadline = Deadline::after(timeout);
            let (mut agreed, mut away) = (None, None);
            for server in &up {
                let timeout = deadline.left().unwrap_or(timeout);
                let pending = self.ask("name_columns", std::slice::from_ref(server), |server, _| {
                    let (table, structure) = (table.to_owned(), structure.clone());
                    async move { server.agree_on_columns(&table, &structure, timeout).await }
                });
                match pending.await.present() {
                    Ok(answers) => {
                        for (_, kept) in answers {
                            if kept.as_ref().is_some_and(|kept| !kept.fits(structure)) {
                                return Ok(kept);
                            }
                            agreed = agreed.or(kept);
                        }
                    }
                    // The client proposes the structure to this server once the server has returned.
                    Err(error) if error.is_transient() => away = Some(error),
                    Err(error) => return Err(error),
                }
            }
            away.filter(|_| agreed.is_none()).map_or(Ok(agreed), Err)
        })
    }

    /// Returns the structure of the items of `table` from the first server that has it.
    pub fn column_names<'a>(&'a self, table: &'a str, timeout: Duration) -> Call<'a, Option<Nest<()>>> {
        Box::pin(async move {
            let (up, timeout) = self.wait_for_one("column_names", timeout).await?;
            let pending = self.ask("column_names", &up, |server, _| {
                let table = table.to_owned();
                async move { server.column_names(&table, timeout).await }
            });
            Ok(pending.await.present()?.into_iter().find_map(|(_, names)| names))
        })
    }

    /// Returns the conditions that samples and inserts are waiting for, or none if one of the servers lets them
    /// proceed.
    pub fn waits<'a>(&'a self, table: &'a str, timeout: Duration) -> Call<'a, Waits> {
        Box::pin(async move {
            let up = self.up();
            if up.is_empty() {
                let why = Some(self.no_server_reason());
                return Ok(Waits { sample: why.clone(), insert: why });
            }
            let pending = self.ask("waits", &up, |server, _| {
                let table = table.to_owned();
                async move { server.waits(&table, timeout).await }
            });
            Ok(merge::waits(pending.await.present()?))
        })
    }

    fn no_server_error(&self, operation: &str) -> Error {
        Error::new(ErrorKind::Unavailable, format!("{operation}: {}", self.no_server_reason()))
    }
}

/// The part of a call for one server.
#[derive(Debug, Clone, Default)]
struct Part {
    updates: Vec<(u64, f64)>,
    deletes: Vec<u64>,
}

impl Part {
    fn len(&self) -> u64 {
        u64::try_from(self.updates.len() + self.deletes.len()).unwrap_or(u64::MAX)
    }
}

/// Adds a table to one server. Returns the server's error if the server already has a table with this name and the same
/// rules.
async fn add_unless_present(
    server: &Connection,
    config: &TableConfig,
    timeout: Duration,
) -> Result<Option<Error>> {
    let Err(error) = server.add_table(config, timeout).await else { return Ok(None) };
    if error.kind() != ErrorKind::InvalidArgument {
        return Err(error);
    }
    // Servers do not tell these settings.
    let told =
        |config: &TableConfig| TableConfig { seed: None, allow_never_sampled: false, ..config.clone() };
    let info = server.server_info("add_table", timeout).await?;
    let is_same = info.table(&config.name).is_some_and(|present| told(&present.config) == told(config));
    if is_same { Ok(Some(error)) } else { Err(error) }
}
