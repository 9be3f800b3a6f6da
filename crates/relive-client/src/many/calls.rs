//! Calls of one request and one answer, made at the servers that they concern.
//!
//! Each gives a boxed future: it makes the very call that it is a part of, at single servers.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use relive_table::ItemStructure;
use relive_table::{Changed, CheckpointStatus, TableChange, TableConfig};
use relive_tensor::Nest;

use super::ask::{Answers, Call};
use super::fleet::Many;
use super::merge;
use super::server::Server;
use crate::client::{ServerInfo, ServerStatus, Transport, Waits};
use crate::{Error, ErrorKind};

impl Many {
    /// The tables of all servers that are there, as if they were one.
    pub(crate) fn server_info(&self, timeout: Duration) -> Call<'_, ServerInfo> {
        Box::pin(async move {
            let call = "server_info";
            let (up, timeout) = self.wait_for_one(call, timeout).await?;
            let asked = self.ask(call, &up, move |client, _| async move {
                client.with_timeout(timeout).server_info().await
            });
            Ok(merge::infos(asked.await.present()?.into_iter().map(|(_, info)| info)))
        })
    }

    /// What all servers that are there say of themselves, added up.
    pub(crate) fn status(&self, timeout: Duration) -> Call<'_, ServerStatus> {
        Box::pin(async move {
            let (up, timeout) = self.wait_for_one("status", timeout).await?;
            let asked = self.ask("status", &up, move |client, _| async move {
                client.with_timeout(timeout).status().await
            });
            merge::statuses(asked.await.present()?).ok_or_else(|| self.nobody("status"))
        })
    }

    /// The way to the servers, if it is the same to all; otherwise the slowest of them.
    pub(crate) fn negotiate(&self, timeout: Duration) -> Call<'_, Transport> {
        Box::pin(async move {
            let (up, timeout) = self.wait_for_one("negotiate", timeout).await?;
            let asked = self.ask("negotiate", &up, move |client, _| async move {
                client.with_timeout(timeout).negotiate().await
            });
            let ways = asked.await.present()?;
            Ok(slowest(ways.into_iter().map(|(_, way)| way)))
        })
    }

    pub(crate) fn transport(&self) -> Transport {
        slowest(self.up().iter().map(|server| server.client().transport()))
    }

    /// Sends each key to the server that has it, and keys that were never met to all.
    pub(crate) fn mutate<'a>(
        &'a self,
        table: &'a str,
        updates: &'a [(u64, f64)],
        deletes: &'a [u64],
        timeout: Duration,
    ) -> Call<'a, ()> {
        Box::pin(async move {
            let operation = "mutate_priorities";
            let (up, timeout) = self.wait_for_one(operation, timeout).await?;
            let (parts, concerned) = self.share_out(up, updates, deletes);
            let asked = self.ask(operation, &concerned, |client, server| {
                let (table, part) =
                    (table.to_owned(), parts.get(&server.number).cloned().unwrap_or_default());
                async move {
                    let Part { updates, deletes } = part;
                    client.with_timeout(timeout).mutate_priorities(&table, &updates, &deletes).await
                }
            });
            let answers: Answers<()> = asked.await;
            for server in answers.absent() {
                let lost = parts.get(&server.number).map_or(0, Part::len);
                server.lost_updates.fetch_add(lost, Ordering::Relaxed);
            }
            answers.none_refused()
        })
    }

    /// What each server is to be told, and the servers among `up` that are to be told anything.
    fn share_out(
        &self,
        up: Vec<Arc<Server>>,
        updates: &[(u64, f64)],
        deletes: &[u64],
    ) -> (HashMap<u32, Part>, Vec<Arc<Server>>) {
        let mut parts: HashMap<u32, Part> =
            up.iter().map(|server| (server.number, Part::default())).collect();
        for (key, priority) in updates {
            self.tell_owner(*key, &mut parts, |part| part.updates.push((*key, *priority)));
        }
        for key in deletes {
            self.tell_owner(*key, &mut parts, |part| part.deletes.push(*key));
        }
        let concerned = |server: &Arc<Server>| parts.get(&server.number).is_some_and(|part| part.len() > 0);
        let concerned = up.into_iter().filter(concerned).collect();
        (parts, concerned)
    }

    fn tell_owner(&self, key: u64, parts: &mut HashMap<u32, Part>, mut tell: impl FnMut(&mut Part)) {
        let owner = self.owners.find(key).and_then(|number| self.server(number));
        match owner.map(|owner| (parts.get_mut(&owner.number), owner)) {
            Some((Some(part), _)) => tell(part),
            Some((None, owner)) => drop(owner.lost_updates.fetch_add(1, Ordering::Relaxed)),
            None => parts.values_mut().for_each(tell),
        }
    }

    pub(crate) fn reset<'a>(&'a self, table: &'a str, timeout: Duration) -> Call<'a, ()> {
        Box::pin(async move {
            let (servers, timeout) = self.settle("reset", timeout).await?;
            let asked = self.ask("reset", &servers, |client, _| {
                let table = table.to_owned();
                async move { client.with_timeout(timeout).reset(&table).await }
            });
            asked.await.all().map(drop)
        })
    }

    /// The paths of all checkpoints, as `address=path` with commas between.
    pub(crate) fn checkpoint(&self, timeout: Duration) -> Call<'_, String> {
        Box::pin(async move {
            let (servers, timeout) = self.settle("checkpoint", timeout).await?;
            let asked = self.ask("checkpoint", &servers, move |client, _| async move {
                client.with_timeout(timeout).checkpoint().await
            });
            let paths = asked.await.all()?;
            let paths: Vec<String> =
                paths.into_iter().map(|(server, path)| format!("{}={path}", server.address())).collect();
            Ok(paths.join(","))
        })
    }

    pub(crate) fn checkpoint_status(&self, timeout: Duration) -> Call<'_, CheckpointStatus> {
        Box::pin(async move {
            let call = "checkpoint_status";
            let (up, timeout) = self.wait_for_one(call, timeout).await?;
            let asked = self.ask(call, &up, move |client, _| async move {
                client.with_timeout(timeout).checkpoint_status().await
            });
            let statuses = asked.await.present()?.into_iter().map(|(_, status)| status);
            merge::checkpoints(statuses).ok_or_else(|| self.nobody(call))
        })
    }

    pub(crate) fn change_table<'a>(
        &'a self,
        table: &'a str,
        change: &'a TableChange,
        timeout: Duration,
    ) -> Call<'a, Changed> {
        Box::pin(async move {
            let (servers, timeout) = self.settle("change_table", timeout).await?;
            let asked = self.ask("change_table", &servers, |client, _| {
                let (table, change) = (table.to_owned(), change.clone());
                async move { client.with_timeout(timeout).change_table(&table, change).await }
            });
            Ok(merge::changed(asked.await.all()?.into_iter().map(|(_, changed)| changed)))
        })
    }

    pub(crate) fn add_table(&self, config: TableConfig, timeout: Duration) -> Call<'_, ()> {
        Box::pin(async move {
            let (servers, timeout) = self.settle("add_table", timeout).await?;
            let asked = self.ask("add_table", &servers, |client, _| {
                let config = config.clone();
                async move { client.with_timeout(timeout).add_table(config).await }
            });
            asked.await.all().map(drop)
        })
    }

    pub(crate) fn drop_table<'a>(&'a self, table: &'a str, timeout: Duration) -> Call<'a, ()> {
        Box::pin(async move {
            let (servers, timeout) = self.settle("drop_table", timeout).await?;
            let asked = self.ask("drop_table", &servers, |client, _| {
                let table = table.to_owned();
                async move { client.with_timeout(timeout).drop_table(&table).await }
            });
            asked.await.all_that_had_it()
        })
    }

    /// Whether all servers that are there keep the structure.
    pub(crate) fn name_columns<'a>(
        &'a self,
        table: &'a str,
        structure: &'a Nest<()>,
        timeout: Duration,
    ) -> Call<'a, bool> {
        Box::pin(async move {
            let (up, timeout) = self.wait_for_one("name_columns", timeout).await?;
            let asked = self.ask("name_columns", &up, |client, _| {
                let (table, structure) = (table.to_owned(), structure.clone());
                async move { client.with_timeout(timeout).name_columns(&table, &structure).await }
            });
            Ok(asked.await.present()?.into_iter().all(|(_, kept)| kept))
        })
    }

    /// What all items of `table` look like, for a writer who keeps to the answer. The servers are asked one after the other, so that of
    /// two writers who propose at the same time one is the first at all of them.
    pub(crate) fn agree_on_columns<'a>(
        &'a self,
        table: &'a str,
        structure: &'a Nest<()>,
        timeout: Duration,
    ) -> Call<'a, Option<Arc<ItemStructure>>> {
        Box::pin(async move {
            let (up, timeout) = self.wait_for_one("name_columns", timeout).await?;
            let (mut agreed, mut away) = (None, None);
            for server in &up {
                let asked = self.ask("name_columns", std::slice::from_ref(server), |client, _| {
                    let (table, structure) = (table.to_owned(), structure.clone());
                    async move { client.with_timeout(timeout).agree_on_columns(&table, &structure).await }
                });
                match asked.await.present() {
                    Ok(answers) => {
                        for (_, kept) in answers {
                            if kept.as_ref().is_some_and(|kept| !kept.fits(structure)) {
                                return Ok(kept);
                            }
                            agreed = agreed.or(kept);
                        }
                    }
                    // The client proposes the structure to this server when it is back.
                    Err(error) if error.is_transient() => away = Some(error),
                    Err(error) => return Err(error),
                }
            }
            away.filter(|_| agreed.is_none()).map_or(Ok(agreed), Err)
        })
    }

    /// What the items of `table` look like, at the first server that knows.
    pub(crate) fn column_names<'a>(
        &'a self,
        table: &'a str,
        timeout: Duration,
    ) -> Call<'a, Option<Nest<()>>> {
        Box::pin(async move {
            let (up, timeout) = self.wait_for_one("column_names", timeout).await?;
            let asked = self.ask("column_names", &up, |client, _| {
                let table = table.to_owned();
                async move { client.with_timeout(timeout).column_names(&table).await }
            });
            Ok(asked.await.present()?.into_iter().find_map(|(_, names)| names))
        })
    }

    /// What samples and inserts wait for: nothing, if one server lets them through.
    pub(crate) fn waits<'a>(&'a self, table: &'a str, timeout: Duration) -> Call<'a, Waits> {
        Box::pin(async move {
            let up = self.up();
            if up.is_empty() {
                let why = Some(self.why_nobody());
                return Ok(Waits { sample: why.clone(), insert: why });
            }
            let asked = self.ask("waits", &up, |client, _| {
                let table = table.to_owned();
                async move { client.with_timeout(timeout).waits(&table).await }
            });
            Ok(merge::waits(asked.await.present()?))
        })
    }

    fn nobody(&self, operation: &str) -> Error {
        Error::new(ErrorKind::Unavailable, format!("{operation}: {}", self.why_nobody()))
    }
}

/// What one server is told.
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

fn slowest(ways: impl Iterator<Item = Transport>) -> Transport {
    let rank = |way: &Transport| match way {
        Transport::Tcp => 0,
        Transport::Unix => 1,
        Transport::SharedMemory => 2,
        Transport::InProcess => 3,
    };
    ways.min_by_key(rank).unwrap_or(Transport::Tcp)
}
