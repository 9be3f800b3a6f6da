//! Interprets addresses where Python supports more than the Rust client.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use pyo3::prelude::*;
use relive_client::ErrorKind;
use relive_host::Address;

use super::in_process::Place;
use crate::error::raise_kind;

/// How long to wait for a local port to accept a connection.
const PROBE: Duration = Duration::from_millis(500);

/// Names of this machine; an address with one of these names may be served by this process.
const LOCAL_HOSTS: [&str; 5] = ["localhost", "127.0.0.1", "[::1]", "0.0.0.0", "[::]"];

/// The prefix of addresses of servers in this process that have no port.
pub(crate) const IN_PROCESS: &str = "in-process:";

/// Returns the place of the server in this process that may serve the address, or `None` if there is no such server.
pub(crate) fn local_place(address: &str) -> Option<Place> {
    if let Some(number) = address.strip_prefix(IN_PROCESS) {
        return number.parse().ok();
    }
    let (host, port) = address.rsplit_once(':')?;
    LOCAL_HOSTS.contains(&host).then(|| port.parse::<u16>().ok()).flatten().map(Place::from)
}

/// Returns an error if a server of this process has stopped at `address` and no other process listens there, because
/// waiting for the stopped server would never end.
pub(crate) fn check_for_successor(py: Python<'_>, address: &str, place: Option<Place>) -> PyResult<()> {
    let port = place.and_then(|place| u16::try_from(place).ok());
    if port.is_some_and(|port| py.detach(|| is_listened_at(port))) {
        return Ok(());
    }
    let text = match port {
        Some(_) => {
            format!("the server of this process at {address} was stopped, and no other server listens there")
        }
        None => {
            format!("this process has no server at {address}: it was stopped, or belongs to another process")
        }
    };
    Err(raise_kind(py, ErrorKind::Unavailable, text))
}

/// Returns whether a server listens at `port` of this machine.
fn is_listened_at(port: u16) -> bool {
    let hosts = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
    hosts.iter().any(|&host| TcpStream::connect_timeout(&SocketAddr::new(host, port), PROBE).is_ok())
}

/// Strips the scheme prefix of gRPC's notation from the address of a single server. A host name may resolve to several
/// addresses, so its prefix is kept, unless it is a name of this machine or an IP address.
pub(crate) fn of_one_server(address: &str) -> &str {
    let is_single = |rest: &&str| !rest.contains(',');
    let listed = ["ipv4:", "ipv6:"].iter().find_map(|prefix| address.strip_prefix(prefix)).filter(is_single);
    let named = address.strip_prefix("dns:///").filter(is_single).filter(|rest| {
        let host = rest.rsplit_once(':').map_or(*rest, |(host, _)| host);
        LOCAL_HOSTS.contains(&host) || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
    });
    listed.or(named).unwrap_or(address)
}

/// Returns the address to listen on. Without a `host`, it covers both address families of the machine, as in dm-reverb.
pub(crate) fn address(host: Option<&str>, port: u16) -> Address {
    Address::of_host(host.unwrap_or("*"), port)
}
