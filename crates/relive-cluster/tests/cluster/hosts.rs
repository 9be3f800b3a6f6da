//! Streams between two hosts with an unplugged network cable.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;
use relive_cluster::stream::{
    Port, PortAccess, ShardReader, ShardWriter, StreamError, Window, WriterOptions,
};
use relive_flow::{ErrorKind, Flow};
use relive_testkit::hosts::{Host, TwoHosts};

/// Longer than any call takes unless it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Longer than any silence of a working stream, and shorter than the silence after which its ends consider a connection
/// dead.
const SILENCE: Duration = Duration::from_secs(2);

/// Creates a port on the near host, and the stream of shard 0.
fn near(hosts: &TwoHosts) -> (Port, Flow<Bytes>) {
    let _here = hosts.enter(Host::Near);
    let address = format!("{}:0", TwoHosts::address(Host::Near)).parse().unwrap();
    let port = Port::bind(address, PortAccess::default()).unwrap();
    let reader: ShardReader = port.reader(0, Window::default()).unwrap();
    (port, Flow::from_pull("shard", reader).try_for_each(|item| item))
}

/// Starts shard 0 on the far host, which sends this many numbers. Returns how many numbers the shard had sent when it
/// could not continue.
fn far(
    hosts: &TwoHosts,
    port: &Port,
    (count, lease): (u64, Duration),
) -> JoinHandle<Result<u64, StreamError>> {
    let (entered, address) = (hosts.entrance(Host::Far), port.address().to_string());
    thread::spawn(move || {
        let _there = entered.enter();
        let options = WriterOptions { lease, ..WriterOptions::default() };
        let writer = ShardWriter::connect(&address, options)?;
        for number in 0..count {
            while !writer.wait_for_room(SILENCE)? {}
            writer.send(number.to_le_bytes().to_vec().into())?;
        }
        writer.finish(PATIENCE).map(|_| count)
    })
}

/// Returns the next number; `None` if none arrives for a while.
fn next(items: &mut Flow<Bytes>) -> Option<u64> {
    match items.next_within(SILENCE)? {
        Ok(item) => Some(u64::from_le_bytes(item[..].try_into().unwrap())),
        Err(error) if error.kind() == ErrorKind::Timeout => None,
        Err(error) => panic!("{error}"),
    }
}

/// Takes numbers until none arrives. Returns the first missing number.
fn until_silent(items: &mut Flow<Bytes>, mut expected: u64) -> u64 {
    while let Some(number) = next(items) {
        assert_eq!(number, expected);
        expected += 1;
    }
    expected
}

/// Tests the statement of `docs/clusters.md` about a network that fails for some seconds: nothing is lost, duplicated
/// or reordered.
#[test]
fn a_stream_resumes_after_a_network_outage() {
    const COUNT: u64 = 3_000_000;
    let Some(hosts) = TwoHosts::connected() else { return };
    let (port, mut items) = near(&hosts);
    let shard = far(&hosts, &port, (COUNT, PATIENCE));
    for outage in 0..2 {
        let taken = port.status()[0].1.taken;
        for expected in taken..taken + 10_000 {
            let number = loop {
                if let Some(number) = next(&mut items) {
                    break number;
                }
            };
            assert_eq!(number, expected);
        }
        hosts.unplug();
        let reached = until_silent(&mut items, taken + 10_000);
        assert!(reached < COUNT, "the stream was over before the cable was out");
        // The first time, the connection survives; the second time, both ends have abandoned it.
        let since = Instant::now();
        while outage == 1 && port.status()[0].1.is_connected {
            assert_eq!(next(&mut items), None);
            assert!(since.elapsed() < PATIENCE, "the port takes a dead connection for a living one");
        }
        hosts.plug();
    }
    let taken = port.status()[0].1.taken;
    for (expected, item) in (taken..).zip(items) {
        assert_eq!(u64::from_le_bytes(item.unwrap()[..].try_into().unwrap()), expected);
    }
    assert_eq!(shard.join().unwrap(), Ok(COUNT));
    let (_, status) = port.status()[0];
    assert_eq!((status.taken, status.has_ended), (COUNT, true));
    assert!(status.connections >= 2, "it has connected anew: {status:?}");
}

/// Tests the statement of `docs/clusters.md` about a network that does not return: the shard ends when its lease
/// expires, and its reader when the port marks the shard as failed.
#[test]
fn a_permanent_network_outage_ends_the_shard_when_its_lease_expires() {
    let Some(hosts) = TwoHosts::connected() else { return };
    let (port, mut items) = near(&hosts);
    let lease = Duration::from_secs(3);
    let shard = far(&hosts, &port, (u64::MAX, lease));
    while port.status()[0].1.taken < 1_000 {
        next(&mut items);
    }
    hosts.unplug();
    let since = Instant::now();
    let taken = port.status()[0].1.taken;
    until_silent(&mut items, taken);
    let error = shard.join().unwrap().unwrap_err();
    assert!(matches!(error, StreamError::Lost { shard: 0, .. }), "{error}");
    assert!(since.elapsed() < lease + PATIENCE / 4, "{:?}", since.elapsed());
    port.fail(0, "its host is gone");
    let error = items.next().unwrap().unwrap_err();
    assert!(error.to_string().ends_with("its host is gone"), "{error}");
}
