//! How servers join a fleet: fixed addresses immediately, and the addresses of names when a task resolves them.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use relive_connection::{ClientOptions, Connection, Proposals, Result};
use tokio::net::lookup_host;
use tokio::time::{sleep, timeout};

use crate::address::Source;
use crate::fleet::{Fleet, WeakFleet};
use crate::watch;

/// How often a name is resolved, normally and while one of its servers is unreachable: a server that has restarted may
/// have another address.
const RESOLVE_EVERY: Duration = Duration::from_secs(10);
const RESOLVE_WHILE_AWAY: Duration = Duration::from_secs(1);

/// How long resolving may take. After that time, the previous addresses are kept.
const RESOLVE_LIMIT: Duration = Duration::from_secs(5);

impl Fleet {
    /// Creates a fleet of the servers of `sources`. Must be called inside a Tokio runtime: its tasks watch the servers.
    ///
    /// # Errors
    /// `InvalidArgument` for a malformed address.
    pub(crate) fn start(
        sources: Vec<Source>,
        options: &ClientOptions,
        proposals: Arc<Proposals>,
    ) -> Result<Arc<Fleet>> {
        let text = sources.iter().map(Source::text).collect::<Vec<_>>().join(",");
        let names: Vec<String> = sources.iter().filter_map(Source::name).collect();
        let fleet = Fleet::new(text, names.len(), options.clone(), proposals);
        for source in sources {
            if let Source::Fixed(address) = source {
                let connection = Connection::new(&address, options.clone())?;
                watch::add(&fleet, address, connection);
            }
        }
        for name in names {
            fleet.spawn(run(Arc::downgrade(&fleet), name));
        }
        Ok(fleet)
    }
}

/// Resolves `name` repeatedly until its client is dropped.
pub(crate) async fn run(weak: WeakFleet, name: String) {
    let mut known: BTreeSet<SocketAddr> = BTreeSet::new();
    let mut is_first = true;
    loop {
        let found = match timeout(RESOLVE_LIMIT, lookup_host(&name)).await {
            Ok(Ok(found)) => Some(of_one_family(found.collect())),
            Ok(Err(error)) => {
                tracing::warn!(target: "relive", "cannot resolve {name}: {error}; keeping its previous servers");
                None
            }
            Err(_) => None,
        };
        let Some(fleet) = weak.upgrade() else { return };
        if let Some(found) = found {
            apply_addresses(&fleet, &name, &mut known, found);
        }
        if std::mem::replace(&mut is_first, false) {
            fleet.resolved_one();
        }
        let all_up = !known.is_empty() && fleet.members().iter().all(|server| server.is_up());
        drop(fleet);
        sleep(if all_up { RESOLVE_EVERY } else { RESOLVE_WHILE_AWAY }).await;
    }
}

/// Keeps the addresses of one family (IPv4 or IPv6), because a name with addresses of both families lists each server
/// twice.
fn of_one_family(found: BTreeSet<SocketAddr>) -> BTreeSet<SocketAddr> {
    let has_v4 = found.iter().any(SocketAddr::is_ipv4);
    found.into_iter().filter(|address| address.is_ipv4() == has_v4).collect()
}

/// Adds new servers, and removes those that are no longer among the addresses of the name, unless these still answer.
fn apply_addresses(
    fleet: &Arc<Fleet>,
    name: &str,
    known: &mut BTreeSet<SocketAddr>,
    found: BTreeSet<SocketAddr>,
) {
    for address in found.difference(known) {
        let host = name.rsplit_once(':').map_or(name, |(host, _)| host);
        let options = fleet.options.clone().or_tls_name(host);
        match Connection::new(&address.to_string(), options) {
            Ok(connection) => watch::add(fleet, address.to_string(), connection),
            Err(error) => tracing::warn!(target: "relive", "cannot use {address} of {name}: {error}"),
        }
    }
    let mut kept = found;
    for address in known.iter() {
        if kept.contains(address) {
            continue;
        }
        let text = address.to_string();
        match fleet.members().iter().find(|server| server.address() == text) {
            Some(server) if server.is_up() => drop(kept.insert(*address)),
            Some(server) => fleet.remove(server, &format!("{name} no longer has this address")),
            None => {}
        }
    }
    *known = kept;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_with_addresses_of_both_families_counts_once() {
        let found = ["127.0.0.1:1", "[::1]:1"].map(|address| address.parse().unwrap());
        let one = of_one_family(found.into_iter().collect());
        assert_eq!(one.into_iter().collect::<Vec<_>>(), ["127.0.0.1:1".parse().unwrap()]);
        let v6: BTreeSet<SocketAddr> = ["[::1]:1".parse().unwrap()].into();
        assert_eq!(of_one_family(v6.clone()), v6);
    }
}
