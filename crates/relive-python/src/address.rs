//! What addresses mean beyond what the Rust client knows of them.

use std::net::IpAddr;

/// Names of this machine that mean this very process may serve the address.
const LOCAL_HOSTS: [&str; 5] = ["localhost", "127.0.0.1", "[::1]", "0.0.0.0", "[::]"];

/// The port, if the address is one that this process may serve.
pub(crate) fn local_port(address: &str) -> Option<u16> {
    let (host, port) = address.rsplit_once(':')?;
    LOCAL_HOSTS.contains(&host).then(|| port.parse().ok()).flatten()
}

/// Addresses of one server in gRPC's notation, without it. A name that is to be resolved may stand for many, unless it is this
/// machine's or no name.
pub(crate) fn of_one_server(address: &str) -> &str {
    let is_single = |rest: &&str| !rest.contains(',');
    let listed = ["ipv4:", "ipv6:"].iter().find_map(|prefix| address.strip_prefix(prefix)).filter(is_single);
    let named = address.strip_prefix("dns:///").filter(is_single).filter(|rest| {
        let host = rest.rsplit_once(':').map_or(*rest, |(host, _)| host);
        LOCAL_HOSTS.contains(&host) || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
    });
    listed.or(named).unwrap_or(address)
}
