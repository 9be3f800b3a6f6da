//! Rows on other machines, over the loopback device. The test binary starts itself as the process that is killed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use relive_tensor::DType;

use super::*;
use crate::collect::{Cast, CollectOptions, Collector, Pad, Window};
use crate::error::ErrorKind;
use crate::peers::{Network, NetworkOptions, Peer};
use crate::schema::{Column, Schema};
use crate::store::{Reader, Removal, Store, StoreOptions};
use crate::tls::{ClientTls, Identity, ServerTls};

const RANKS: u64 = 3;
const CAPACITY: u64 = 5;
const MAX_STEPS: u64 = 12;
const ANYWHERE: &str = "127.0.0.1:0";
const ROLE: &str = "RELIVE_TEST_ROWS";

fn schema() -> Schema {
    let columns = vec![
        Column::new("byte", DType::UInt8, &[3]),
        Column::new("wide", DType::Float32, &[2, 2]),
        Column::new("large", DType::Int16, &[9_000]),
    ];
    Schema::new(MAX_STEPS, columns).unwrap()
}

/// Returns the store of a rank, with trajectories of 1 to 12 steps.
fn store(rank: u64) -> Store {
    let options = StoreOptions {
        rank,
        ranks: RANKS,
        touch_threads: 0,
        removal: Removal::Fifo,
        ..StoreOptions::new(CAPACITY)
    };
    let store = Store::create(schema(), options).unwrap();
    for index in rank * CAPACITY..(rank + 1) * CAPACITY {
        insert(&store, index);
    }
    store
}

fn insert(store: &Store, number: u64) {
    let length = 1 + number * 5 % MAX_STEPS;
    let column = |column: usize| -> Vec<u8> {
        let bytes = length * schema().step_bytes(column);
        (0..bytes).map(|at| u8::try_from((at * 7 + number * 31 + column as u64) % 251).unwrap()).collect()
    };
    store.insert(&[&column(0), &column(1), &column(2)], length, 1.0).unwrap();
}

fn network(options: NetworkOptions) -> Network {
    Network::new(NetworkOptions { patience: Duration::from_secs(20), ..options }).unwrap()
}

/// All ranks' stores, and readers of rank 0 that span all of them: through shared memory, and over a network.
struct Ranks {
    stores: Vec<Store>,
    servers: Vec<RowServer>,
    local: Reader,
    remote: Reader,
}

fn ranks(options: &NetworkOptions, host: &str) -> Ranks {
    let stores: Vec<Store> = (0..RANKS).map(store).collect();
    let readers: Vec<Reader> = stores.iter().map(|store| store.reader().clone()).collect();
    let network = network(options.clone());
    let serve = |store: &Store| RowServer::start(&network, store.reader(), format!("{host}:0")).unwrap();
    let servers: Vec<RowServer> = stores[1..].iter().map(serve).collect();
    let peers: Vec<Peer> = servers
        .iter()
        .rev()
        .map(|server| Peer::connect(&network, &format!("{host}:{}", server.address().port())).unwrap())
        .collect();
    let local = readers[0].of_ranks(&readers, &[]).unwrap();
    let remote = readers[0].of_ranks(&readers[..1], &peers).unwrap();
    Ranks { stores, servers, local, remote }
}

fn windows() -> Vec<Window> {
    vec![
        Window::new("byte", -4, 6),
        Window { pad: Pad::Tail, pad_value: 3.0, ..Window::new("wide", -9, 9) },
        Window::new("large", -2, 3),
        Window { cast: Some(Cast { to: DType::Float16, scale: 0.5 }), ..Window::new("byte", 0, 2) },
    ]
}

/// Returns the bytes and valid steps of every window.
fn collected(
    reader: &Reader,
    windows: &[Window],
    indices: &[u64],
    steps: &[u64],
) -> Vec<(Vec<u8>, Vec<u32>)> {
    let collector = Collector::new(reader, windows, CollectOptions::new(40)).unwrap();
    let pinned = reader.pin(indices).unwrap();
    let steps: Vec<u64> =
        pinned.rows().iter().zip(steps).map(|(row, step)| step % (row.length + 1)).collect();
    // The collection runs twice, so that the second run reuses the memory of the first.
    drop(collector.collect(&pinned, &steps).unwrap());
    let batch = collector.collect(&pinned, &steps).unwrap();
    let column = |window| batch.column(window).map(|column| (column.bytes.to_vec(), column.valid.to_vec()));
    (0..batch.columns()).map(|window| column(window).unwrap()).collect()
}

/// Waits until the condition holds, for as long as a slow machine may need.
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::yield_now();
    }
}

fn pins(store: &Store) -> u64 {
    let first = store.shard().global(0);
    (first..first + CAPACITY).map(|index| store.status(index).unwrap().pins).sum()
}

#[test]
fn rows_over_the_network_match_those_in_memory() {
    let ranks = ranks(&NetworkOptions::new(), "127.0.0.1");
    let mut runner = proptest::test_runner::TestRunner::default();
    let rows = proptest::collection::vec((0..RANKS * CAPACITY, 0..=MAX_STEPS), 0..40);
    let test = |rows: Vec<(u64, u64)>| {
        let (indices, steps): (Vec<u64>, Vec<u64>) = rows.into_iter().unzip();
        let [local, remote] =
            [&ranks.local, &ranks.remote].map(|reader| collected(reader, &windows(), &indices, &steps));
        prop_assert!(local == remote, "{indices:?} at {steps:?}");
        Ok(())
    };
    runner.run(&rows, test).unwrap();
}

#[test]
fn rows_pinned_by_another_rank_stay_until_unpinned() {
    let ranks = ranks(&NetworkOptions::new(), "127.0.0.1");
    let (pinned, missing) = ranks.remote.pin_present(&[6, 0, 6, 12]).unwrap();
    assert!(missing.is_empty());
    assert_eq!(pinned.rows().iter().map(|row| row.index).collect::<Vec<_>>(), [6, 0, 6, 12]);
    assert_eq!((pins(&ranks.stores[1]), ranks.stores[1].status(6).unwrap().sampled), (2, 2));
    // Index 5 is the oldest and is replaced first, followed by all others except index 6.
    for number in 0..2 * CAPACITY {
        insert(&ranks.stores[1], 100 + number);
    }
    assert_eq!(ranks.stores[1].status(6).unwrap().generation, 1);
    assert!(pinned.bytes(0, 0).unwrap_err().to_string().contains("on another machine"));
    drop(pinned);
    eventually("pins are taken back", || pins(&ranks.stores[1]) == 0);
    // The trajectory was sampled for the last time, and no longer exists.
    let held = ranks.remote.hold(&[6]).unwrap().0;
    assert_eq!((held.rows()[0].sampled, held.rows().len()), (2, 1));
    drop(held);
    eventually("pins are taken back", || pins(&ranks.stores[1]) == 0);
    let generation = ranks.stores[1].status(7).unwrap().generation;
    ranks.stores[1].remove(&[crate::store::Inserted { index: 7, generation }]).unwrap();
    let (pinned, missing) = ranks.remote.pin_present(&[7, 0, 8]).unwrap();
    assert_eq!((missing, pinned.rows().len()), (vec![0], 2));
    assert_eq!(ranks.remote.pin(&[RANKS * CAPACITY]).unwrap_err().kind(), ErrorKind::NotFound);
    // A large number of rows is pinned in several passes, which is invisible to the caller.
    let many: Vec<u64> = (0..40_000).map(|number| CAPACITY + number % CAPACITY).collect();
    let (pinned, missing) = ranks.remote.pin_present(&many).unwrap();
    let expected: Vec<usize> = (0..many.len()).filter(|&at| many[at] == 7).collect();
    assert!(missing == expected, "{} are missing", missing.len());
    assert_eq!(pins(&ranks.stores[1]), 32_000 + 1, "8 is pinned from before");
    assert!(pinned.rows().iter().map(|row| row.index).eq(many.iter().copied().filter(|&index| index != 7)));
}

#[test]
fn mismatched_stores_are_refused() {
    let ranks = ranks(&NetworkOptions::new(), "127.0.0.1");
    let other = Schema::new(4, vec![Column::new("a", DType::UInt8, &[4])]).unwrap();
    let options = StoreOptions { rank: 1, ranks: RANKS, touch_threads: 0, ..StoreOptions::new(CAPACITY) };
    let other = Store::create(other, options).unwrap();
    let network = network(NetworkOptions::new());
    let server = RowServer::start(&network, other.reader(), ANYWHERE).unwrap();
    let peer = Peer::connect(&network, &server.address().to_string()).unwrap();
    let own = ranks.stores[0].reader();
    let error = own.of_ranks(std::slice::from_ref(own), &[peer]).unwrap_err().to_string();
    assert!(error.contains("rank 1 at 127.0.0.1") && error.contains("a uint8[4]"), "{error}");
    let twice = Peer::connect(&network, &ranks.servers[0].address().to_string()).unwrap();
    assert!(
        own.of_ranks(std::slice::from_ref(own), &[twice.clone(), twice])
            .unwrap_err()
            .to_string()
            .contains("the ranks of one index space")
    );
}

#[test]
fn only_clients_with_the_token_are_served() {
    let options =
        |token: Option<&str>| NetworkOptions { token: token.map(str::to_owned), ..NetworkOptions::new() };
    let store = store(0);
    let server = RowServer::start(&network(options(Some("a secret"))), store.reader(), ANYWHERE).unwrap();
    let address = server.address().to_string();
    Peer::connect(&network(options(Some("a secret"))), &address).unwrap();
    for (token, text) in [(Some("a secreT"), "does not know the token"), (None, "requires a token")] {
        let error = Peer::connect(&network(options(token)), &address).unwrap_err().to_string();
        assert!(error.contains(text) && error.contains(&address), "{error}");
    }
    let long = "x".repeat(2000);
    assert_eq!(Network::new(options(Some(&long))).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_server_that_is_open_to_other_machines_warns() {
    let store = store(0);
    let options =
        |token: Option<&str>| NetworkOptions { token: token.map(str::to_owned), ..NetworkOptions::new() };
    for (token, ip, expected) in
        [(None, "0.0.0.0", 1), (None, "127.0.0.1", 0), (Some("a secret"), "0.0.0.0", 0)]
    {
        let network = network(options(token));
        let warnings = relive_testkit::logs::warnings(|| {
            RowServer::start(&network, store.reader(), (ip, 0)).unwrap();
        });
        assert_eq!(warnings.len(), expected, "{token:?} {ip}");
        assert!(warnings.iter().all(|text| text.contains("without TLS and tokens")), "{warnings:?}");
    }
}

#[test]
fn rows_are_served_over_tls() {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let pem = certified.cert.pem();
    let identity =
        Identity::from_pem(pem.as_bytes(), certified.signing_key.serialize_pem().as_bytes()).unwrap();
    let options = NetworkOptions {
        server_tls: Some(ServerTls::new(identity, None).unwrap()),
        client_tls: Some(ClientTls::new(Some(pem.as_bytes()), None).unwrap()),
        ..NetworkOptions::new()
    };
    let ranks = ranks(&options, "localhost");
    let rows = [14, 0, 7, 7, 3];
    let [local, remote] =
        [&ranks.local, &ranks.remote].map(|reader| collected(reader, &windows(), &rows, &[1, 2, 3, 4, 5]));
    assert!(local == remote);
    // A client without TLS receives an error that explains why no answer arrives.
    let plain = network(NetworkOptions::new());
    let error = Peer::connect(&plain, &ranks.servers[0].address().to_string()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Corrupt), "{error}");
}

/// Whatever bytes arrive, the server answers or closes the connection, and keeps serving other clients.
#[test]
fn foreign_clients_are_refused() {
    let store = store(0);
    let server = RowServer::start(&network(NetworkOptions::new()), store.reader(), ANYWHERE).unwrap();
    let answer = |sent: &[u8]| {
        let mut socket = TcpStream::connect(server.address()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket.write_all(sent).unwrap();
        let mut answer = Vec::new();
        // A connection that was reset sends nothing more.
        let _ = socket.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    };
    assert_eq!(answer(b"GET / HTTP/1.1\r\n\r\n"), "");
    assert!(answer(b"RLVROWS\n\x09\0\0\0").contains("uses version 1, but this process uses version 9"));
    let open = |rest: &[u8]| {
        let opened = [11_u8; 1].iter().copied().chain([0; 15]);
        [b"RLVROWS\n\x01\0\0\0", &opened.collect::<Vec<u8>>()[..], rest].concat()
    };
    let frame = |kind: u8, head: &[u8], body: &[u8]| {
        let lengths =
            [&u32::try_from(head.len()).unwrap().to_le_bytes()[..], &(body.len() as u64).to_le_bytes()];
        [&[kind, 0, 0, 0], lengths[0], lengths[1], head, body].concat()
    };
    assert!(answer(&open(&frame(12, &[], &[]))).contains("unexpected frame of kind"));
    assert!(answer(&open(&[99; 16])).contains("kind 99"));
    // Refused requests leave the connection open; the last frame closes it.
    let end = frame(12, &[], &[]);
    // 2,700 windows of 400 rows, which cause work although there is nothing to send.
    let windows = [&2_700_u64.to_le_bytes()[..], &[0; 24].repeat(2_700)].concat();
    // Rows before a refused row are not pinned, so they cannot be read.
    let refused = [[0_u64; 20_000].map(u64::to_le_bytes).concat(), 999_u64.to_le_bytes().to_vec()].concat();
    let read = [1_u64, 0, 0, 1].map(u64::to_le_bytes).concat();
    let unpinned =
        [frame(13, &[0; 16], &refused), frame(15, &read, &[0_u64, 1, 0].map(u64::to_le_bytes).concat())]
            .concat();
    assert!(answer(&open(&[unpinned.clone(), end.clone()].concat())).contains("index 999 is beyond"));
    // The same rows count again for each lease.
    let half = |lease: u64| frame(13, &[lease, 0].map(u64::to_le_bytes).concat(), &vec![0; 8 * 600_000]);
    for (request, text) in [
        (unpinned, "which the connection has not pinned"),
        ([half(1), half(2)].concat(), "600000 trajectories in addition to the connection's 600001 pins"),
        (frame(15, &windows, &[0; 24].repeat(400)), "1080000 pieces; the limit of a request is 1048576"),
        (frame(13, &[0; 3], &[]), "ends at byte 3"),
        (frame(13, &[0; 16], &[0; 7]), "has 7 bytes, not 0"),
        (frame(13, &[0; 16], &999_u64.to_le_bytes()), "index 999 is beyond"),
        (frame(15, &[1; 8], &[]), "ends at byte 8"),
        (frame(15, &[0; 8], &[0; 24]), "which the connection has not pinned"),
        (frame(17, &[], &[]), "other than one lease"),
    ] {
        let answer = answer(&open(&[request, end.clone()].concat()));
        assert!(answer.contains(text) && answer.contains("unexpected frame of kind"), "{answer}");
    }
    Peer::connect(&network(NetworkOptions::new()), &server.address().to_string()).unwrap();
}

#[test]
fn an_unresponsive_store_times_out() {
    let silent = TcpListener::bind(ANYWHERE).unwrap();
    let options = NetworkOptions { patience: Duration::from_millis(100), ..NetworkOptions::new() };
    let address = silent.local_addr().unwrap().to_string();
    let error = Peer::connect(&Network::new(options.clone()).unwrap(), &address).unwrap_err();
    assert!(
        error.to_string().contains(&format!("connecting to the store at {address} took longer than")),
        "{error}"
    );
    let interrupted = NetworkOptions { interrupted: Some(|| true), ..NetworkOptions::new() };
    let error = Peer::connect(&Network::new(interrupted).unwrap(), &address).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
    drop(silent);
    let error = Peer::connect(&Network::new(options).unwrap(), &address).unwrap_err();
    assert!(error.to_string().contains("cannot reach"), "{error}");
}

/// A caller within a runtime must neither panic nor hang.
#[test]
fn a_blocking_call_inside_a_runtime_works() {
    let ranks = ranks(&NetworkOptions::new(), "127.0.0.1");
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(runtime.block_on(async { ranks.remote.pin(&[7]).unwrap().rows()[0].index }), 7);
}

/// Returns a server at the address of one that was dropped, as soon as the address is free.
fn restarted(store: &Store, address: std::net::SocketAddr) -> RowServer {
    let (network, mut server) = (network(NetworkOptions::new()), None);
    eventually("the address is free", || {
        server = RowServer::start(&network, store.reader(), address).ok();
        server.is_some()
    });
    server.unwrap()
}

/// The next draw reconnects to a restarted server; earlier pins are reported as lost.
#[test]
fn a_lost_connection_is_reopened() {
    // No other program's connection begins at this address, so that the port stays free while the server restarts.
    let mut ranks = ranks(&NetworkOptions::new(), "127.0.0.9");
    let collector = Collector::new(&ranks.remote, &windows(), CollectOptions::new(4)).unwrap();
    let pinned = ranks.remote.pin(&[7]).unwrap();
    let address = ranks.servers.remove(0).address();
    let error = loop {
        // The connection ends soon after its server.
        if let Err(error) = collector.collect(&pinned, &[0]) {
            break error;
        }
    };
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains(&format!("rank 1 at {address}")), "{error}");
    eventually("the pins of a connection end with it", || pins(&ranks.stores[1]) == 0);
    ranks.servers.insert(0, restarted(&ranks.stores[1], address));
    let again = ranks.remote.pin(&[7]).unwrap();
    collector.collect(&again, &[0]).unwrap();
    assert_eq!(collector.collect(&pinned, &[0]).unwrap_err().kind(), ErrorKind::Unavailable);
    let mut both = pinned;
    assert!(both.append(again).unwrap_err().to_string().contains("draw again"));
}

/// A request that waits for an abandoned one continues over a new connection.
#[test]
fn a_request_survives_the_end_of_the_one_before_it() {
    let store = store(1);
    let network = network(NetworkOptions::new());
    let server = RowServer::start(&network, store.reader(), ANYWHERE).unwrap();
    let peer = Peer::connect(&network, &server.address().to_string()).unwrap();
    let (first, _lease) = network.wait("the first request", peer.pin(&[CAPACITY], false)).unwrap();
    let second = async {
        let mut second = std::pin::pin!(peer.pin(&[CAPACITY + 1], false));
        let blocked =
            std::future::poll_fn(|cx| std::task::Poll::Ready(second.as_mut().poll(cx).is_pending()));
        assert!(blocked.await, "the first request is unanswered");
        drop(first);
        let (pending, _lease) = second.await?;
        pending.pinned(1).await
    };
    assert_eq!(network.wait("the second request", second).unwrap().len(), 1);
}

/// A batch of several requests to each of two stores, and a call that needs both stores, do not wait for each other.
#[test]
fn batches_of_several_requests_do_not_block_other_calls() {
    let ranks = ranks(&NetworkOptions::new(), "127.0.0.1");
    let collector = Collector::new(&ranks.remote, &windows(), CollectOptions::new(40)).unwrap();
    let indices: Vec<u64> = (0..40).map(|number| CAPACITY + number % (2 * CAPACITY)).collect();
    let pinned = ranks.remote.pin(&indices).unwrap();
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let collecting = scope.spawn(|| {
            let outcome = (0..100).try_for_each(|_| collector.collect(&pinned, &[0; 40]).map(drop));
            is_done.store(true, std::sync::atomic::Ordering::Relaxed);
            outcome
        });
        while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
            ranks.remote.pin(&[CAPACITY, 2 * CAPACITY]).unwrap();
        }
        collecting.join().unwrap().unwrap();
    });
}

/// A reader of several lost stores needs one further attempt.
#[test]
fn all_lost_connections_are_reopened_at_once() {
    let mut ranks = ranks(&NetworkOptions::new(), "127.0.0.10");
    let indices = [CAPACITY, 2 * CAPACITY];
    let _lost = ranks.remote.pin(&indices).unwrap();
    let addresses: Vec<_> = ranks.servers.drain(..).map(|server| server.address()).collect();
    for (store, address) in ranks.stores[1..].iter().zip(addresses) {
        eventually("the connection ends with its server", || pins(store) == 0);
        ranks.servers.push(restarted(store, address));
    }
    assert_eq!(ranks.remote.hold(&indices).unwrap_err().kind(), ErrorKind::Unavailable);
    ranks.remote.reconnect();
    assert_eq!(ranks.remote.hold(&indices).unwrap().0.rows().len(), 2);
}

/// Entry point of the test binary as a child process; does nothing unless a test has started it as one.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let network = network(NetworkOptions::new());
    if role == "server" {
        let store = store(1);
        let server = RowServer::start(&network, store.reader(), ANYWHERE).unwrap();
        println!("\nat {}", server.address());
        loop {
            std::thread::park();
        }
    }
    // Pins all rows of the server at this address, and waits until the server ends.
    let own = store(0);
    let peers = role.split(' ').map(|address| Peer::connect(&network, address).unwrap());
    let all = own.reader().of_ranks(std::slice::from_ref(own.reader()), &peers.collect::<Vec<_>>()).unwrap();
    let _pinned = all.pin(&(CAPACITY..3 * CAPACITY).collect::<Vec<_>>()).unwrap();
    println!("\nat work");
    loop {
        std::thread::park();
    }
}

/// Returns a child process, and its message about its state.
fn spawn(role: &str, kill_at: &str) -> (Child, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "serve::tests::child", "--nocapture", "--test-threads=1"]);
    command.env(ROLE, role).env("RELIVE_KILL_AT", kill_at).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let actual = lines.map_while(Result::ok).find_map(|line| line.strip_prefix("at ").map(str::to_owned));
    (child, actual.expect("the child says where it is"))
}

#[test]
fn a_killed_server_is_named() {
    for kill_at in ["rows half sent", "none"] {
        let (mut child, address) = spawn("server", kill_at);
        let stores = [store(0), store(2)];
        let readers = stores.clone().map(|store| store.reader().clone());
        let network = network(NetworkOptions::new());
        let peer = Peer::connect(&network, &address).unwrap();
        let all = readers[0].of_ranks(&readers, &[peer]).unwrap();
        let collector = Collector::new(&all, &windows(), CollectOptions::new(1500)).unwrap();
        let indices: Vec<u64> = (0..1500).map(|number| number % (RANKS * CAPACITY)).collect();
        let pinned = all.pin(&indices).unwrap();
        if kill_at == "none" {
            child.kill().unwrap();
        }
        let error = collector.collect(&pinned, &vec![0; 1500]).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.to_string().contains(&format!("rank 1 at {address}")), "{error}");
        child.wait().unwrap();
        let error = all.pin(&[6]).unwrap_err().to_string();
        assert!(error.contains(&format!("cannot reach rank 1 at {address}")), "{error}");
        // The other ranks' trajectories are unchanged.
        drop(pinned);
        let pinned = all.pin(&[0, 11]).unwrap();
        collector.collect(&pinned, &[0, 0]).unwrap();
        drop(pinned);
        assert_eq!(stores.iter().map(pins).sum::<u64>(), 0);
    }
}

#[test]
fn a_killed_client_leaves_no_pins() {
    let stores = [store(1), store(2)];
    let network = network(NetworkOptions::new());
    let servers =
        stores.each_ref().map(|store| RowServer::start(&network, store.reader(), ANYWHERE).unwrap());
    let addresses = servers.each_ref().map(|server| server.address().to_string()).join(" ");
    let (mut child, _) = spawn(&addresses, "none");
    assert_eq!(stores.iter().map(pins).sum::<u64>(), 2 * CAPACITY);
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("its pins are taken back", || stores.iter().map(pins).sum::<u64>() == 0);
}
