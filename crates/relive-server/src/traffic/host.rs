//! The time that the clients of one host have wasted, over all their connections.
//!
//! While others are waiting, the time that a client wastes is charged to the address of its connection. Otherwise, a
//! client whose connection is dropped, or that closes its connection just before that, would have the full time again
//! on its next connection.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::limits::{MAX_CHARGED, MIN_CLIENT_BYTES_PER_SECOND};

/// No time.
pub(super) const NEVER: u64 = u64::MAX;

/// Returns the time that the transfer of `bytes` may take.
pub(super) fn ms_for(bytes: u64) -> u64 {
    bytes.saturating_mul(1_000) / MIN_CLIENT_BYTES_PER_SECOND
}

/// The clients of one host.
#[derive(Debug)]
pub(super) struct Host {
    /// The time that the clients have wasted on abandoned loads, and the beginning of the contention in which they
    /// wasted it.
    wasted_ms: AtomicU64,
    wasted_since_ms: AtomicU64,
}

impl Host {
    fn new() -> Self {
        Self { wasted_ms: AtomicU64::new(0), wasted_since_ms: AtomicU64::new(NEVER) }
    }

    /// Returns the time that a new load inherits.
    pub(super) fn wasted_ms(&self) -> u64 {
        self.wasted_ms.load(Ordering::Relaxed)
    }

    /// Returns whether the time was wasted in the contention that began at `since_ms`.
    pub(super) fn is_charged_for(&self, since_ms: u64) -> bool {
        self.wasted_since_ms.load(Ordering::Relaxed) == since_ms
    }

    /// Records that an abandoned load took `ms` longer than allowed.
    pub(super) fn add_wasted(&self, ms: u64, since_ms: u64) {
        let charged = ms.min(u64::try_from(MAX_CHARGED.as_millis()).unwrap_or(u64::MAX));
        if self.wasted_since_ms.swap(since_ms, Ordering::Relaxed) == since_ms {
            self.wasted_ms.fetch_max(charged, Ordering::Relaxed);
        } else {
            self.wasted_ms.store(charged, Ordering::Relaxed);
        }
    }

    /// Reduces the wasted time, after `bytes` have arrived, by the time that their transfer may take.
    pub(super) fn reduce_wasted(&self, bytes: u64) {
        let less = |wasted: u64| Some(wasted.saturating_sub(ms_for(bytes)));
        // The update cannot fail, because the function always returns a number.
        let _ = self.wasted_ms.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

/// All hosts that are connected or have wasted time. All clients without an address, which are on this machine, count
/// as one host.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    known: HashMap<Option<IpAddr>, Arc<Host>>,
    /// The number of hosts left after the last cleanup.
    kept: usize,
}

/// The number of hosts that are kept without checking whether they are still needed.
const FEW_HOSTS: usize = 64;

impl Hosts {
    /// Returns the host of `peer`, where `contended_since_ms` is the beginning of the current contention.
    pub(super) fn of(&mut self, peer: &str, contended_since_ms: u64) -> Arc<Host> {
        if self.known.len() >= 2 * self.kept.max(FEW_HOSTS) {
            self.known
                .retain(|_, host| Arc::strong_count(host) > 1 || host.is_charged_for(contended_since_ms));
            self.kept = self.known.len();
        }
        Arc::clone(self.known.entry(address(peer)).or_insert_with(|| Arc::new(Host::new())))
    }
}

/// Returns the identity of a host: its address or, for IPv6, the half of the address that identifies the network.
fn address(peer: &str) -> Option<IpAddr> {
    let address = peer.parse::<SocketAddr>().ok()?.ip().to_canonical();
    Some(match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(whole) => Ipv6Addr::from_bits(whole.to_bits() & (u128::MAX << 64)).into(),
    })
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn same(hosts: &mut Hosts, [one, other]: [&str; 2]) -> bool {
        Arc::ptr_eq(&hosts.of(one, 0), &hosts.of(other, 0))
    }

    #[test]
    fn connections_of_one_address_are_one_host() {
        let mut hosts = Hosts::default();
        assert!(same(&mut hosts, ["10.0.0.1:1000", "10.0.0.1:2000"]));
        assert!(same(&mut hosts, ["10.0.0.1:1000", "[::ffff:10.0.0.1]:1"]));
        assert!(same(&mut hosts, ["[2001:db8::1]:1", "[2001:db8::2]:1"]));
        assert!(same(&mut hosts, ["this machine", "this machine"]));
        assert!(!same(&mut hosts, ["10.0.0.1:1", "10.0.0.2:1"]));
        assert!(!same(&mut hosts, ["[2001:db8:0:1::1]:1", "[2001:db8:0:2::1]:1"]));
    }

    #[test]
    fn disconnected_hosts_are_forgotten_unless_charged() {
        let (mut hosts, since_ms) = (Hosts::default(), 7);
        let stays = hosts.of("10.1.0.1:1", since_ms);
        hosts.of("10.1.0.2:1", since_ms).add_wasted(1_000, since_ms);
        for number in 0..100_000 {
            hosts.of(&format!("{}:1", Ipv4Addr::from_bits(0x0B00_0000 + number)), since_ms);
            assert!(hosts.known.len() <= 2 * FEW_HOSTS + 2);
        }
        assert!(Arc::ptr_eq(&stays, &hosts.of("10.1.0.1:2", since_ms)));
        assert_eq!(hosts.of("10.1.0.2:2", since_ms).wasted_ms(), 1_000);
    }

    #[test]
    fn a_host_charge_is_bounded_and_reduced_by_received_bytes() {
        let host = Host::new();
        host.add_wasted(u64::MAX, 5);
        assert_eq!(u128::from(host.wasted_ms()), MAX_CHARGED.as_millis());
        assert!(host.is_charged_for(5) && !host.is_charged_for(6));
        host.reduce_wasted(MIN_CLIENT_BYTES_PER_SECOND * 2);
        assert_eq!(u128::from(host.wasted_ms()), MAX_CHARGED.as_millis() - 2_000);
        host.add_wasted(1, 6);
        assert_eq!(host.wasted_ms(), 1, "another contention");
    }
}
