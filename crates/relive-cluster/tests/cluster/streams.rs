//! Streams over real sockets: order, back-pressure, broken connections, restarted shards, and rejected writers.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use relive_cluster::stream::{
    Port, PortAccess, ShardReader, ShardWriter, StreamError, Window, WriterAccess, WriterOptions,
};
use relive_flow::{ErrorKind, Flow};

const PATIENCE: Duration = Duration::from_secs(30);

fn port(access: PortAccess) -> Port {
    Port::bind("127.0.0.1:0".parse().unwrap(), access).unwrap()
}

fn writer(address: &str, shard: u32, epoch: u64) -> ShardWriter {
    let options = WriterOptions { shard, epoch, ..WriterOptions::default() };
    ShardWriter::connect(address, options).unwrap()
}

fn flow(reader: ShardReader) -> Flow<Bytes> {
    Flow::from_pull("shard", reader).try_for_each(|item| item)
}

fn number(item: &[u8]) -> u64 {
    u64::from_le_bytes(item[..8].try_into().unwrap())
}

/// Returns an item with the given number and size.
fn item(number: u64, bytes: usize) -> Bytes {
    let mut item = number.to_le_bytes().to_vec();
    item.resize(bytes.max(8), 7);
    item.into()
}

fn send(writer: &ShardWriter, item: Bytes) -> Result<(), StreamError> {
    assert!(writer.wait_for_room(PATIENCE)?, "there was no room");
    writer.send(item)
}

/// Starts a thread with a shard that produces this many items.
fn shard(
    address: String,
    epoch: u64,
    count: u64,
    bytes: usize,
) -> thread::JoinHandle<Result<bool, StreamError>> {
    thread::spawn(move || {
        let writer = writer(&address, 0, epoch);
        for place in 0..count {
            send(&writer, item(place, bytes))?;
        }
        writer.finish(PATIENCE)
    })
}

#[test]
fn items_of_any_size_arrive_in_order_before_the_end() {
    for (count, bytes) in [(20_000, 8), (200, 40_000), (5, 24 << 20)] {
        let port = port(PortAccess::default());
        let items = flow(port.reader(0, Window::default()).unwrap());
        let shard = shard(port.address().to_string(), 1, count, bytes);
        for (place, item) in items.into_iter().enumerate() {
            let item = item.unwrap();
            assert_eq!((number(&item), item.len()), (place as u64, bytes));
        }
        assert_eq!(shard.join().unwrap(), Ok(true));
        let (_, status) = port.status()[0];
        assert_eq!((status.taken, status.has_ended), (count, true));
    }
}

#[test]
fn a_shard_produces_only_requested_items() {
    let port = port(PortAccess::default());
    let mut items = flow(port.reader(0, Window { items: 1, ..Window::default() }).unwrap());
    let writer = writer(&port.address().to_string(), 0, 1);
    assert!(!writer.wait_for_room(Duration::from_millis(100)).unwrap(), "nobody has asked");
    for place in 0..5 {
        let made = thread::scope(|scope| {
            scope.spawn(|| send(&writer, item(place, 8)).unwrap());
            items.next().unwrap().unwrap()
        });
        assert_eq!(number(&made), place);
        assert!(!writer.wait_for_room(Duration::from_millis(20)).unwrap(), "the next is not asked for");
    }
}

#[test]
fn a_reader_that_does_not_consume_applies_backpressure() {
    let port = port(PortAccess::default());
    let window = Window { items: u64::MAX, bytes: 1 << 20 };
    let mut items = flow(port.reader(0, window).unwrap());
    let writer = writer(&port.address().to_string(), 0, 1);
    let mut sent = 0;
    let first = thread::scope(|scope| {
        scope.spawn(|| send(&writer, item(0, 100_000)).unwrap());
        items.next().unwrap().unwrap()
    });
    assert_eq!(number(&first), 0);
    while writer.wait_for_room(Duration::from_millis(300)).unwrap() {
        sent += 1;
        writer.send(item(sent, 100_000)).unwrap();
    }
    assert!((10..=12).contains(&sent), "{sent} items of 100 kB in a window of a MiB");
}

#[test]
fn errors_of_a_shard_are_items_and_the_shard_continues() {
    let port = port(PortAccess::default());
    let mut items = flow(port.reader(0, Window::default()).unwrap());
    let writer = writer(&port.address().to_string(), 0, 1);
    writer.fail("the simulator has no wheels").unwrap();
    writer.send(item(1, 8)).unwrap();
    let error = items.next().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "for_each failed at item 0: the simulator has no wheels");
    assert_eq!(number(&items.next().unwrap().unwrap()), 1);
}

/// Forwards bytes between a port and its writers until the connections are cut.
struct Proxy {
    address: String,
    cut: Sender<()>,
    done: Receiver<()>,
}

impl Proxy {
    fn to(port: &Port) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, to) = (listener.local_addr().unwrap().to_string(), port.address());
        let ((cut, cuts), (sender, done)) = (channel(), channel());
        thread::spawn(move || {
            while let Ok((near, _)) = listener.accept() {
                let far = TcpStream::connect(to).unwrap();
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    thread::spawn(move || pass(from, to));
                }
                if cuts.recv().is_err() {
                    return;
                }
                // Data in transit is lost.
                let _ = (near.shutdown(Shutdown::Both), far.shutdown(Shutdown::Both));
                sender.send(()).unwrap();
            }
        });
        Proxy { address, cut, done }
    }

    fn cut(&self) {
        self.cut.send(()).unwrap();
        self.done.recv().unwrap();
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = [0; 8192];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..read]).is_err() {
            return;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

#[test]
fn broken_connections_neither_lose_nor_duplicate_items() {
    let port = port(PortAccess::default());
    let proxy = Proxy::to(&port);
    let items = flow(port.reader(0, Window::default()).unwrap());
    let shard = shard(proxy.address.clone(), 1, 30_000, 100);
    for (place, item) in items.into_iter().enumerate() {
        assert_eq!(number(&item.unwrap()), place as u64);
        if place % 3000 == 1500 {
            proxy.cut();
        }
    }
    assert_eq!(shard.join().unwrap(), Ok(true));
    let (_, status) = port.status()[0];
    assert_eq!(status.taken, 30_000);
    // A connection may be cut before the port has registered it.
    assert!((2..=11).contains(&status.connections), "{} connections", status.connections);
}

#[test]
fn a_restarted_shard_replaces_its_predecessor() {
    let port = port(PortAccess::default());
    let address = port.address().to_string();
    let mut items = flow(port.reader(0, Window::default()).unwrap());
    let before = writer(&address, 0, 1);
    before.send(item(100, 8)).unwrap();
    assert_eq!(number(&items.next().unwrap().unwrap()), 100);
    let anew = writer(&address, 0, 2);
    anew.send(item(200, 8)).unwrap();
    assert_eq!(number(&items.next().unwrap().unwrap()), 200);
    let error = loop {
        match before.wait_for_room(PATIENCE) {
            Ok(_) => before.send(item(101, 8)).unwrap_or_default(),
            Err(error) => break error,
        }
    };
    assert_eq!(error, StreamError::Replaced { shard: 0, epoch: 1, by: 2 });
    anew.send(item(201, 8)).unwrap();
    assert_eq!(number(&items.next().unwrap().unwrap()), 201, "nothing more of the one before");
}

#[test]
fn a_writer_with_a_wrong_token_is_refused() {
    let port = port(PortAccess::default().token("secret"));
    let mut items = flow(port.reader(0, Window::default()).unwrap());
    let address = port.address().to_string();
    for token in ["", "sesame"] {
        let access = WriterAccess::default().token(token);
        let writer =
            ShardWriter::connect(&address, WriterOptions { access, ..WriterOptions::default() }).unwrap();
        let error = writer.wait_for_room(PATIENCE).unwrap_err();
        let text = format!("the reader at {address} refused shard 0: the token is not this job's");
        assert_eq!(error.to_string(), text);
    }
    let access = WriterAccess::default().token("secret");
    let writer =
        ShardWriter::connect(&address, WriterOptions { access, ..WriterOptions::default() }).unwrap();
    writer.send(item(1, 8)).unwrap();
    assert_eq!(number(&items.next().unwrap().unwrap()), 1);
    assert!(writer.has_joined());
}

#[test]
fn other_protocols_and_endless_messages_are_disconnected() {
    let port = port(PortAccess::default());
    let _reader = port.reader(0, Window::default()).unwrap();
    for bytes in [b"GET / HTTP/1.1\r\n\r\n".as_slice(), &[255; 64]] {
        let mut socket = TcpStream::connect(port.address()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        // A reset connection has also ended.
        let _ = socket.read_to_end(&mut answer);
        assert!(answer.len() < 100);
    }
}

#[test]
fn a_leaving_reader_ends_its_shard_and_a_closed_port_ends_all() {
    let port = port(PortAccess::default());
    let address = port.address().to_string();
    let readers = [0, 1].map(|shard| port.reader(shard, Window::default()).unwrap());
    assert_eq!(port.reader(1, Window::default()).unwrap_err(), StreamError::Taken { shard: 1 });
    let [mut one, mut other] = readers.map(flow);
    let writers = [0, 1].map(|shard| writer(&address, shard, 1));
    writers.iter().for_each(|writer| writer.send(item(1, 8)).unwrap());
    let _: [u64; 2] = [&mut one, &mut other].map(|items| number(&items.next().unwrap().unwrap()));
    let ended = |writer: &ShardWriter| loop {
        match writer.wait_for_room(PATIENCE).and_then(|_| writer.send(item(2, 8))) {
            Ok(()) => thread::yield_now(),
            Err(error) => return error,
        }
    };
    drop(one);
    assert_eq!(ended(&writers[0]), StreamError::Closed { shard: 0 });
    drop(port);
    assert_eq!(ended(&writers[1]), StreamError::Closed { shard: 1 });
}

#[test]
fn a_shard_ends_when_its_reader_is_absent_beyond_the_lease() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let options = WriterOptions { shard: 3, lease: Duration::from_millis(200), ..WriterOptions::default() };
    let begun = Instant::now();
    let error = ShardWriter::connect(&address, options).unwrap().wait_for_room(PATIENCE).unwrap_err();
    assert!(matches!(error, StreamError::Lost { shard: 3, .. }), "{error}");
    assert!(
        error.to_string().starts_with(&format!("the reader at {address} has been silent for ")),
        "{error}"
    );
    assert!(begun.elapsed() < PATIENCE);
}

#[test]
fn a_lost_shard_is_an_error_after_its_last_item() {
    let port = port(PortAccess::default());
    let mut items = flow(port.reader(4, Window::default()).unwrap());
    let writer = writer(&port.address().to_string(), 4, 1);
    writer.send(item(1, 8)).unwrap();
    assert_eq!(number(&items.next().unwrap().unwrap()), 1);
    port.fail(4, "its node has ended");
    let error = items.next().unwrap().unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string().ends_with("its node has ended")),
        (ErrorKind::Operator, true)
    );
    assert!(items.next().is_none());
}

#[test]
fn an_address_in_use_is_reported() {
    let taken = port(PortAccess::default());
    let error = Port::bind(taken.address(), PortAccess::default()).unwrap_err();
    assert_eq!(error.to_string(), format!("{}: Address already in use (os error 98)", taken.address()));
}

/// The slot of a reader outlives it, because the writer may not know yet that the reader is gone.
#[test]
fn a_dropped_reader_keeps_no_items() {
    let port = port(PortAccess::default());
    let mut items = flow(port.reader(0, Window { items: 8, ..Window::default() }).unwrap());
    let writer = writer(&port.address().to_string(), 0, 1);
    // The shard produces items once the reader has been pulled.
    items.step().unwrap();
    (0..5).for_each(|place| send(&writer, item(place, 8)).unwrap());
    assert_eq!(number(&items.next().unwrap().unwrap()), 0);
    let until = Instant::now() + PATIENCE;
    while port.status()[0].1.waiting < 4 {
        assert!(Instant::now() < until, "the items have not arrived");
        thread::yield_now();
    }
    drop(items);
    assert_eq!(port.status()[0].1.waiting, 0);
    assert_eq!(writer.finish(PATIENCE), Err(StreamError::Closed { shard: 0 }));
    assert_eq!(port.status()[0].1.waiting, 0);
}

#[test]
fn a_connection_that_ends_with_its_reader_is_not_shown_as_connected() {
    let port = port(PortAccess::default());
    let mut items = flow(port.reader(0, Window::default()).unwrap());
    let writer = writer(&port.address().to_string(), 0, 1);
    items.step().unwrap();
    send(&writer, item(0, 8)).unwrap();
    items.next().unwrap().unwrap();
    assert!(port.status()[0].1.is_connected);
    drop((items, writer));
    let until = Instant::now() + PATIENCE;
    while port.status()[0].1.is_connected {
        assert!(Instant::now() < until, "it still counts as connected");
        thread::yield_now();
    }
}

/// The listener never answers, so the writer is waiting for its reader when it is dropped.
#[test]
fn a_writer_that_is_still_connecting_ends_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let writer = writer(&listener.local_addr().unwrap().to_string(), 0, 1);
    let (_socket, _) = listener.accept().unwrap();
    let begun = Instant::now();
    drop(writer);
    assert!(begun.elapsed() < Duration::from_secs(3));
}
