//! Combines reports from several servers.
//!
//! Numbers are added up, including bounds on a table's size. Rules that apply to each server separately, such as rate
//! limiters, are taken from the first server; the cursor of a rate limiter is the mean of the servers' cursors.

use std::collections::BTreeMap;
use std::sync::Arc;

use relive_connection::{
    ChunkTotals, MemoryStatus, ServerInfo, ServerStatus, StateId, TableStatus, Waiter, Waits,
};
use relive_table::{Changed, CheckpointStatus, FinishedCheckpoint, LoggedChange, TableInfo, Timestamp};

use crate::member::Member;

pub(crate) fn infos(infos: impl Iterator<Item = ServerInfo>) -> ServerInfo {
    let mut tables: BTreeMap<String, TableInfo> = BTreeMap::new();
    let mut id = StateId::default();
    for info in infos {
        id = StateId { high: id.high ^ info.state_id.high, low: id.low.wrapping_add(info.state_id.low) };
        for table in info.tables {
            match tables.get_mut(&table.config.name) {
                Some(sum) => add_info(sum, &table),
                None => drop(tables.insert(table.config.name.clone(), table)),
            }
        }
    }
    ServerInfo { state_id: id, tables: tables.into_values().collect() }
}

fn add_info(sum: &mut TableInfo, other: &TableInfo) {
    let config = Arc::make_mut(&mut sum.config);
    config.max_size = config.max_size.saturating_add(other.config.max_size);
    let bytes = config.max_bytes.zip(other.config.max_bytes);
    config.max_bytes = bytes.map(|(one, other)| one.saturating_add(other));
    sum.current_size += other.current_size;
    sum.num_episodes += other.num_episodes;
    sum.num_deleted_episodes += other.num_deleted_episodes;
    sum.num_unique_samples += other.num_unique_samples;
    sum.num_refused_requests += other.num_refused_requests;
    sum.inserts += other.inserts;
    sum.samples += other.samples;
    sum.deletes += other.deletes;
}

/// Returns `None` if there are no servers.
pub(crate) fn statuses(statuses: Vec<(Arc<Member>, ServerStatus)>) -> Option<ServerStatus> {
    let mut servers: BTreeMap<String, u32> = BTreeMap::new();
    for table in statuses.iter().flat_map(|(_, status)| &status.tables) {
        *servers.entry(table.info.config.name.clone()).or_default() += 1;
    }
    let mut all = statuses.into_iter().map(|(server, status)| named(status, server.address()));
    let first = all.next()?;
    let mut sum = all.fold(first, add_status);
    for table in &mut sum.tables {
        let servers = servers.get(&table.info.config.name).copied().unwrap_or(1);
        average_cursor(table, servers);
    }
    Some(sum)
}

/// Replaces the sum of the cursors by their mean, which can be compared with the bounds of each server.
fn average_cursor(sum: &mut TableStatus, servers: u32) {
    sum.limiter_cursor /= f64::from(servers.max(1));
}

/// Returns the status with the server's address before the name of each waiter.
fn named(mut status: ServerStatus, address: &str) -> ServerStatus {
    let of_tables = status.tables.iter_mut().flat_map(|table| table.waiters.iter_mut());
    let name = |waiter: &mut Waiter| waiter.who = format!("{} at {address}", waiter.who);
    of_tables.chain(status.memory.waiters.iter_mut()).for_each(name);
    for change in &mut status.changes {
        change.who = format!("{} at {address}", change.who);
    }
    status
}

fn add_status(mut sum: ServerStatus, other: ServerStatus) -> ServerStatus {
    if sum.version != other.version && !sum.version.split(", ").any(|known| known == other.version) {
        sum.version = format!("{}, {}", sum.version, other.version);
    }
    sum.uptime = sum.uptime.min(other.uptime);
    for table in other.tables {
        match sum.tables.iter_mut().find(|known| known.info.config.name == table.info.config.name) {
            Some(known) => add_table(known, table),
            None => sum.tables.push(table),
        }
    }
    sum.tables.sort_by(|a, b| a.info.config.name.cmp(&b.info.config.name));
    add_chunks(&mut sum.chunks, other.chunks);
    add_memory(&mut sum.memory, other.memory);
    sum.insert_streams += other.insert_streams;
    sum.sample_streams += other.sample_streams;
    sum.connections += other.connections;
    sum.codecs = sum.codecs.iter().filter(|codec| other.codecs.contains(*codec)).collect();
    sum.changes.extend(other.changes);
    sum.changes.sort_by_key(|change| change.at);
    let both = [std::mem::take(&mut sum.checkpoints), other.checkpoints];
    sum.checkpoints = checkpoints(both.into_iter()).unwrap_or_default();
    sum
}

fn add_table(sum: &mut TableStatus, other: TableStatus) {
    add_info(&mut sum.info, &other.info);
    sum.limiter_cursor += other.limiter_cursor;
    sum.deletes += other.deletes;
    add_chunks(&mut sum.chunks, other.chunks);
    sum.referenced_bytes += other.referenced_bytes;
    sum.waiters.extend(other.waiters);
    sum.waiters.sort_by_key(|waiter| std::cmp::Reverse(waiter.waiting));
    sum.waiters_not_listed += other.waiters_not_listed;
    sum.undelivered_samples += other.undelivered_samples;
    sum.columns = sum.columns.take().or(other.columns);
    sum.paused.inserts |= other.paused.inserts;
    sum.paused.samples |= other.paused.samples;
    sum.waits = merge_waits(&sum.waits, &other.waits);
}

fn add_chunks(sum: &mut ChunkTotals, other: ChunkTotals) {
    sum.chunks += other.chunks;
    sum.encoded_bytes += other.encoded_bytes;
    sum.raw_bytes += other.raw_bytes;
    sum.shared_bytes += other.shared_bytes;
    sum.spilled_bytes += other.spilled_bytes;
}

fn add_memory(sum: &mut MemoryStatus, other: MemoryStatus) {
    let both =
        |one: Option<u64>, other: Option<u64>| one.zip(other).map(|(one, other)| one.saturating_add(other));
    sum.max_bytes = both(sum.max_bytes, other.max_bytes);
    sum.process_bytes = both(sum.process_bytes, other.process_bytes);
    sum.waiters.extend(other.waiters);
    sum.waiters_not_listed += other.waiters_not_listed;
    sum.spill_error = sum.spill_error.take().or(other.spill_error);
}

/// Combines the waits on two servers. A call does not wait if one of the servers lets it proceed.
fn merge_waits(one: &Waits, other: &Waits) -> Waits {
    let both = |one: &Option<String>, other: &Option<String>| {
        Some(format!("{}; {}", one.as_ref()?, other.as_ref()?))
    };
    Waits { sample: both(&one.sample, &other.sample), insert: both(&one.insert, &other.insert) }
}

pub(crate) fn waits(waits: Vec<(Arc<Member>, Waits)>) -> Waits {
    let mut all = waits.into_iter().map(|(server, waits)| {
        let at = |why: String| format!("at {}: {why}", server.address());
        Waits { sample: waits.sample.map(at), insert: waits.insert.map(at) }
    });
    let first = all.next().unwrap_or_default();
    all.fold(first, |sum, other| merge_waits(&sum, &other))
}

/// Returns the last finished checkpoint of the server that is worst off, the oldest saved checkpoint, and the next one
/// that is due.
pub(crate) fn checkpoints(statuses: impl Iterator<Item = CheckpointStatus>) -> Option<CheckpointStatus> {
    statuses.reduce(|mut sum, other| {
        sum.enabled &= other.enabled;
        sum.running = sum.running.take().or(other.running);
        sum.queued |= other.queued;
        if standing(other.last.as_ref()) < standing(sum.last.as_ref()) {
            sum.last = other.last;
        }
        let began = |saved: &Option<FinishedCheckpoint>| saved.as_ref().map(|saved| saved.began_at);
        // `None` counts as the oldest, because that server would start empty.
        if began(&other.last_saved) < began(&sum.last_saved) {
            sum.last_saved = other.last_saved;
        }
        sum.num_saved += other.num_saved;
        sum.num_failed += other.num_failed;
        sum.next_due = [sum.next_due, other.next_due].into_iter().flatten().min();
        sum.loaded = sum.loaded.take().or(other.loaded);
        sum
    })
}

/// Orders the last checkpoints of servers, the worst first: failed ones, then those that never existed, then the
/// others by age.
fn standing(last: Option<&FinishedCheckpoint>) -> (u8, Option<Timestamp>) {
    let kind = match last.map(|last| &last.outcome) {
        Some(Err(_)) => 0,
        None => 1,
        Some(Ok(_)) => 2,
    };
    (kind, last.map(|last| last.began_at))
}

/// Combines the changes of all servers: equal changes are listed once, and the numbers of evicted items are added up.
pub(crate) fn changed(all: impl Iterator<Item = Changed>) -> Changed {
    all.fold(Changed::default(), |mut sum, other| {
        sum.evicted += other.evicted;
        for change in other.changes {
            let is_known = |known: &LoggedChange| {
                (&known.what, &known.old, &known.new) == (&change.what, &change.old, &change.new)
            };
            if !sum.changes.iter().any(is_known) {
                sum.changes.push(change);
            }
        }
        sum
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use relive_table::{CheckpointTrigger, Paused, SavedCheckpoint, TableConfig};

    use super::*;

    fn finished(nanos: i64, is_saved: bool) -> FinishedCheckpoint {
        let saved = SavedCheckpoint { location: "c".to_owned(), written_bytes: 1, total_bytes: 1 };
        FinishedCheckpoint {
            trigger: CheckpointTrigger::Interval,
            began_at: Timestamp::from_nanos(nanos),
            took: Duration::ZERO,
            longest_pause: Duration::ZERO,
            outcome: if is_saved { Ok(saved) } else { Err("no space".to_owned()) },
        }
    }

    #[test]
    fn the_last_checkpoint_of_several_servers_is_the_worst_or_the_oldest() {
        let [new, old, failed] = [finished(9, true), finished(3, true), finished(8, false)];
        let last = |all: [Option<&FinishedCheckpoint>; 3]| {
            let statuses =
                all.map(|last| CheckpointStatus { last: last.cloned(), ..CheckpointStatus::default() });
            checkpoints(statuses.into_iter()).unwrap().last
        };
        assert_eq!(last([Some(&new), Some(&old), Some(&new)]).as_ref(), Some(&old));
        assert_eq!(last([Some(&new), None, Some(&old)]), None, "a server has never written one");
        assert_eq!(last([None, Some(&failed), Some(&old)]).as_ref(), Some(&failed));
    }

    #[test]
    fn the_cursor_of_several_servers_is_their_mean() {
        let table = |limiter_cursor| TableStatus {
            info: TableInfo {
                config: Arc::new(TableConfig::new("t")),
                current_size: 1,
                num_episodes: 0,
                num_deleted_episodes: 0,
                num_unique_samples: 0,
                num_refused_requests: 0,
                inserts: 1,
                samples: 0,
                deletes: 0,
            },
            limiter_cursor,
            deletes: 0,
            chunks: ChunkTotals::default(),
            referenced_bytes: 0,
            waiters: Vec::new(),
            waiters_not_listed: 0,
            undelivered_samples: 0,
            columns: None,
            waits: Waits::default(),
            paused: Paused::default(),
        };
        let mut sum = table(60.0);
        add_table(&mut sum, table(30.0));
        average_cursor(&mut sum, 2);
        assert_eq!((sum.limiter_cursor, sum.info.inserts), (45.0, 2));
    }

    #[test]
    fn changes_of_several_servers_are_merged_without_duplicates() {
        let change = |old: &str, table: &str| LoggedChange {
            at: Timestamp::EPOCH,
            who: "me".into(),
            table: table.into(),
            what: "max_size".into(),
            old: old.into(),
            new: "500".into(),
        };
        let at = |changes: &[&LoggedChange], evicted| Changed {
            changes: changes.iter().map(|&change| change.clone()).collect(),
            evicted,
        };
        let (first, second) = (change("1000", "t"), change("800", "t"));
        let all = [at(&[], 0), at(&[&first], 3), at(&[&first], 4), at(&[&second], 1)];
        assert_eq!(changed(all.into_iter()), at(&[&first, &second], 8));
    }
}
