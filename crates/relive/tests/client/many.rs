//! Tests the use of four servers as one.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use relive::{
    BatchOptions, Client, ClientOptions, ErrorKind, PartialFailure, SamplerOptions, SelectorKind,
    ServerEvent, ServerStanding, TableConfig, TrajectoryWriter, TrajectoryWriterOptions,
};

use crate::common::{LONG, TestServer, leaf, values};

const SERVERS: usize = 4;

/// The longest pause that a dead server may cause.
const AT_MOST: Duration = Duration::from_secs(2);

struct Fleet {
    servers: Vec<TestServer>,
    client: Client,
}

impl Fleet {
    async fn start(table: &TableConfig) -> Fleet {
        let mut servers = Vec::new();
        for _ in 0..SERVERS {
            servers.push(TestServer::start([table.clone()]).await);
        }
        let client = client_of(&servers);
        Fleet { servers, client }
    }

    /// Returns a client for only the server with this index.
    fn one(&self, place: usize) -> Client {
        self.servers[place].client()
    }

    fn address(&self, place: usize) -> String {
        self.servers[place].address.to_string()
    }

    async fn sizes(&self) -> Vec<u64> {
        let mut sizes = Vec::new();
        for server in &self.servers {
            let info = server.client().server_info().await.unwrap();
            sizes.push(info.table("t").unwrap().current_size);
        }
        sizes
    }

    async fn wait_for(&self, place: usize, standing: ServerStanding) {
        wait_for_standing(&self.client, &self.address(place), standing).await;
    }
}

pub(crate) fn client_of(servers: &[TestServer]) -> Client {
    let addresses: Vec<String> = servers.iter().map(|server| server.address.to_string()).collect();
    Client::connect_many_with(&addresses, ClientOptions::default().timeout(LONG)).unwrap()
}

pub(crate) async fn wait_for_standing(client: &Client, address: &str, standing: ServerStanding) {
    let began = Instant::now();
    loop {
        let states = client.servers();
        let state = states.iter().find(|state| state.address == address).expect("a server of the client");
        if state.standing == standing {
            return;
        }
        assert!(began.elapsed() < LONG, "{state:?} is not {standing:?}");
        tokio::task::yield_now().await;
        let _ = client.server_info().await;
    }
}

pub(crate) fn uniform() -> TableConfig {
    TableConfig::new("t").sampler(SelectorKind::Uniform).max_size(1_000_000)
}

fn prioritized() -> TableConfig {
    TableConfig::new("t").sampler(SelectorKind::Prioritized { exponent: 1.0 }).max_size(1_000_000)
}

async fn write(writer: &mut TrajectoryWriter, value: i64, priority: f64) -> u64 {
    writer.append(&leaf(value)).unwrap();
    let newest = writer.history().column("").unwrap().slice(-1..).unwrap();
    writer.create_item("t", priority, newest).await.unwrap()
}

/// Writes the given values, and returns their keys.
pub(crate) async fn fill(
    client: &Client,
    values: std::ops::Range<i64>,
    priority: impl Fn(i64) -> f64,
) -> Vec<u64> {
    let mut writer = client.trajectory_writer(TrajectoryWriterOptions::new(1)).unwrap();
    let mut keys = Vec::new();
    for value in values {
        keys.push(write(&mut writer, value, priority(value)).await);
    }
    writer.close().await.unwrap();
    keys
}

#[tokio::test(flavor = "multi_thread")]
async fn inserts_are_spread_over_servers_and_reported_as_one_table() {
    let fleet = Fleet::start(&uniform()).await;
    for value in 0..20_i64 {
        fleet.client.insert(&leaf(value), &[("t", 1.0)]).await.unwrap();
    }
    // Each server has five items, unless a stream had not quite ended when the next one began.
    let sizes = fleet.sizes().await;
    assert!(sizes.iter().sum::<u64>() == 20 && sizes.iter().all(|size| *size >= 3), "{sizes:?}");
    let info = fleet.client.server_info().await.unwrap();
    let table = info.table("t").unwrap();
    assert_eq!((table.current_size, table.inserts, table.config.max_size), (20, 20, 4_000_000));
    let status = fleet.client.status().await.unwrap();
    assert_eq!(status.table("t").unwrap().info.current_size, 20);
    assert!(fleet.client.servers().iter().all(|state| state.standing == ServerStanding::Up));
    let samples = fleet.client.sample("t", 100).await.unwrap();
    assert!(samples.iter().all(|sample| sample.info().table_size == 20));
    let distinct: std::collections::HashSet<_> = values(&samples).into_iter().collect();
    assert!(distinct.len() > 10, "{distinct:?}");
}

/// Returns the sum of (observed - expected)^2 / expected over the values 0 to `items` - 1.
fn chi_square(counts: &HashMap<i64, u32>, expected: impl Fn(i64) -> f64, items: i64) -> f64 {
    let of = |value: i64| f64::from(counts.get(&value).copied().unwrap_or(0));
    (0..items).map(|value| (of(value) - expected(value)).powi(2) / expected(value)).sum()
}

async fn count_values(client: &Client, batches: usize) -> (HashMap<i64, u32>, Vec<(i64, f64, u64)>) {
    let mut sampler = client.batches("t", BatchOptions::new(200).max_batches(batches)).unwrap();
    let (mut counts, mut infos) = (HashMap::new(), Vec::new());
    while let Some(batch) = sampler.next().await {
        for sample in batch.unwrap().samples() {
            let value = sample.columns().unwrap()[0].to_vec::<i64>().unwrap()[0];
            *counts.entry(value).or_default() += 1;
            infos.push((value, sample.info().probability, sample.info().table_size));
        }
    }
    (counts, infos)
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_of_uneven_servers_are_uniform_over_all_items() {
    let fleet = Fleet::start(&uniform()).await;
    for (place, values) in [0..10, 10..40, 40..45, 45..100].into_iter().enumerate() {
        fill(&fleet.one(place), values, |_| 1.0).await;
    }
    // This uses a new client, because a client that connected earlier notices the inserts only within a second.
    let (counts, infos) = count_values(&client_of(&fleet.servers), 100).await;
    assert_eq!(infos.len(), 20_000);
    // With 99 degrees of freedom, 181 is exceeded once in a million.
    let statistic = chi_square(&counts, |_| 200.0, 100);
    assert!(statistic < 181.0, "{statistic}");
    let has_right_size =
        |&(_, probability, size): &(i64, f64, u64)| size == 100 && (probability - 0.01).abs() < 1e-9;
    assert!(infos.iter().all(has_right_size));
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_of_prioritized_tables_follow_the_priorities_of_all_servers() {
    let fleet = Fleet::start(&prioritized()).await;
    // Each server has the same number of items, with very different priorities.
    for (place, values) in [0..10, 10..20, 20..30, 30..40].into_iter().enumerate() {
        fill(&fleet.one(place), values, |value| (value / 10 + 1) as f64).await;
    }
    let (counts, infos) = count_values(&client_of(&fleet.servers), 150).await;
    let probability = |value: i64| (value / 10 + 1) as f64 / 100.0;
    // A client receives a server's sum of priorities only with its first sample: the first two batches are not counted.
    let warm = 400.0;
    let statistic = chi_square(&counts, |value| (30_000.0 - warm) * probability(value) + warm / 40.0, 40);
    assert!(statistic < 100.0, "{statistic}: {counts:?}");
    let are_right =
        infos.iter().skip(1_000).all(|(value, seen, _)| (seen - probability(*value)).abs() < 1e-9);
    assert!(are_right, "{:?}", infos.last());
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_and_deletes_are_routed_to_the_owning_server() {
    let fleet = Fleet::start(&prioritized()).await;
    let keys = fill(&fleet.client, 0..8, |_| 1.0).await;
    let others = fill(&fleet.one(1), 8..16, |_| 1.0).await;
    // Keys from the client's own writer, and keys that are unknown to the client.
    let updates: Vec<(u64, f64)> = keys[..4].iter().chain(&others[..4]).map(|key| (*key, 5.0)).collect();
    fleet.client.mutate_priorities("t", &updates, &[keys[7], others[7], 12345]).await.unwrap();
    let all: Vec<u64> = keys.iter().chain(&others).copied().collect();
    let found = fleet.client.get_items("t", &all).await.unwrap();
    let priorities: Vec<Option<f64>> =
        found.iter().map(|item| item.as_ref().map(|item| item.info().priority)).collect();
    let expected = [Some(5.0), Some(5.0), Some(5.0), Some(5.0), Some(1.0), Some(1.0), Some(1.0), None];
    assert_eq!(priorities, [expected, expected].concat());
    // Keys of samples.
    let batch: Vec<u64> =
        fleet.client.sample("t", 50).await.unwrap().iter().map(|sample| sample.info().key).collect();
    fleet.client.delete_items("t", &batch).await.unwrap();
    let left = fleet.client.get_items("t", &batch).await.unwrap();
    assert!(left.iter().all(Option::is_none));
    let mut listed = 0;
    let mut from = Some(0);
    while let Some(place) = from {
        let page = fleet.client.items("t", place, 3).await.unwrap();
        listed += page.items.len() as u64;
        from = page.next;
    }
    assert_eq!(listed, fleet.sizes().await.iter().sum::<u64>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_applies_to_all_servers_or_names_the_failed_ones() {
    let mut fleet = Fleet::start(&uniform()).await;
    for place in 0..SERVERS {
        fill(&fleet.one(place), 0..5, |_| 1.0).await;
    }
    fleet.client.reset("t").await.unwrap();
    assert_eq!(fleet.sizes().await, [0; SERVERS]);
    let error = fleet.client.reset("u").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let address = fleet.address(3);
    fleet.servers.pop().unwrap().stop().await;
    wait_for_standing(&fleet.client, &address, ServerStanding::Away).await;
    let error = fleet.client.reset("t").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let partial =
        std::error::Error::source(&error).and_then(|source| source.downcast_ref::<PartialFailure>());
    let partial = partial.expect("what was done where");
    assert_eq!(partial.done().len(), 3);
    assert_eq!(partial.failed()[0].0, address);
    assert!(error.to_string().contains("succeeded on 3 of 4 servers"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_items_are_sampled_once_and_only_as_requested() {
    let queue = TableConfig::queue("t", 1_000);
    let fleet = Fleet::start(&queue).await;
    for (place, values) in [0..30, 30..40, 40..40, 40..60].into_iter().enumerate() {
        fill(&fleet.one(place), values, |_| 1.0).await;
    }
    let options = SamplerOptions::default().max_samples(25);
    let mut sampler = fleet.client.sampler("t", options).unwrap();
    let mut seen = Vec::new();
    while let Some(sample) = sampler.next().await {
        seen.extend(values(&[sample.unwrap()]).remove(0));
    }
    assert_eq!((seen.len(), fleet.sizes().await.iter().sum::<u64>()), (25, 35));
    let rest =
        fleet.client.sampler("t", SamplerOptions::default().max_samples(35)).unwrap().next_batch(35).await;
    seen.extend(values(&rest.unwrap()).into_iter().flatten());
    seen.sort_unstable();
    assert_eq!(seen, (0..60).collect::<Vec<_>>());
    // All tables are empty, so the error reports the limiters of all servers.
    let options = SamplerOptions::default().rate_limiter_timeout(Duration::from_millis(50));
    let error = fleet.client.sampler("t", options).unwrap().next().await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
}

#[test]
fn a_blocking_call_is_served_by_any_available_server() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let fleet = runtime.block_on(Fleet::start(&TableConfig::queue("t", 10)));
    let address = |place| fleet.address(place);
    let addresses: Vec<String> = (0..SERVERS).map(address).collect();
    let client = relive::blocking::Client::connect_many(&addresses).unwrap();
    let blocked = client.clone();
    let thread = std::thread::spawn(move || {
        sender.send(()).unwrap();
        blocked.sample("t", 1).unwrap()
    });
    receiver.recv().unwrap();
    client.server(&addresses[2]).unwrap().insert(&leaf(7_i64), &[("t", 1.0)]).unwrap();
    assert_eq!(values(&thread.join().unwrap()), [[7]]);
    let error = client.with_timeout(Duration::from_millis(100)).sample("t", 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
}

/// Writers and readers that load the servers.
struct Load {
    writers: Vec<tokio::task::JoinHandle<Duration>>,
    readers: Vec<tokio::task::JoinHandle<Duration>>,
}

impl Load {
    /// Starts writers and readers that run until `end` and return their longest pauses.
    fn start(client: &Client, end: Instant) -> Load {
        let longest = |pauses: &mut Duration, last: &mut Instant| {
            *pauses = (*pauses).max(last.elapsed());
            *last = Instant::now();
        };
        let writers = (0..8).map(|_| client.clone()).map(|client| {
            tokio::spawn(async move {
                let mut writer =
                    client.trajectory_writer(TrajectoryWriterOptions::new(1).max_pending_items(50)).unwrap();
                let (mut pause, mut last, mut value) = (Duration::ZERO, Instant::now(), 0);
                while Instant::now() < end {
                    write(&mut writer, value, 1.0).await;
                    value += 1;
                    if value % 100 == 0 {
                        writer.flush(LONG).await.unwrap();
                        longest(&mut pause, &mut last);
                    }
                }
                writer.close().await.unwrap();
                pause
            })
        });
        let writers = writers.collect();
        let readers = (0..2).map(|_| client.clone()).map(|client| {
            tokio::spawn(async move {
                let mut batches = client.batches("t", BatchOptions::new(64)).unwrap();
                let (mut pause, mut last) = (Duration::ZERO, Instant::now());
                while Instant::now() < end {
                    batches.next().await.unwrap().unwrap();
                    longest(&mut pause, &mut last);
                }
                pause
            })
        });
        Load { writers, readers: readers.collect() }
    }

    async fn longest_pauses(self) -> (Duration, Duration) {
        let (mut writing, mut reading) = (Duration::ZERO, Duration::ZERO);
        for writer in self.writers {
            writing = writing.max(writer.await.unwrap());
        }
        for reader in self.readers {
            reading = reading.max(reader.await.unwrap());
        }
        (writing, reading)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_and_readers_continue_without_a_server_and_readmit_it() {
    let mut fleet = Fleet::start(&uniform()).await;
    for place in 0..SERVERS {
        fill(&fleet.one(place), 0..100, |_| 1.0).await;
    }
    fleet.client.server_info().await.unwrap();
    let dead = fleet.servers.pop().unwrap();
    let (address, place) = (dead.address, dead.address.to_string());
    let end = Instant::now() + Duration::from_secs(4);
    let load = Load::start(&fleet.client, end);
    let before = fleet.client.sample("t", 10).await.unwrap();
    assert_eq!(before.len(), 10);
    let stopped = Instant::now();
    dead.stop().await;
    wait_for_standing(&fleet.client, &place, ServerStanding::Away).await;
    assert!(stopped.elapsed() < AT_MOST, "found out after {:?}", stopped.elapsed());
    // Unconfirmed items were sent to another server.
    let sample = fleet.client.sample("t", 100).await.unwrap();
    assert_eq!(sample.len(), 100);
    fleet.servers.push(TestServer::start_at(address, [uniform()]).await);
    fleet.wait_for(3, ServerStanding::Up).await;
    let (writing, reading) = load.longest_pauses().await;
    assert!(writing < AT_MOST && reading < AT_MOST, "paused for {writing:?} and {reading:?}");
    // Writers now use the server that came back, and samples come from it.
    assert!(
        fleet.sizes().await[3] > 0,
        "nobody writes to the server that came back: {:?}",
        fleet.client.servers()
    );
    let events: Vec<ServerEvent> = fleet
        .client
        .server_changes()
        .iter()
        .filter(|change| change.address == place)
        .map(|change| change.event)
        .collect();
    assert!(events.starts_with(&[ServerEvent::Joined, ServerEvent::Left, ServerEvent::Joined]), "{events:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unresponsive_server_is_skipped() {
    let fleet = Fleet::start(&uniform()).await;
    // This server accepts connections and never answers.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addresses = [fleet.address(0), silent.local_addr().unwrap().to_string()];
    let options = ClientOptions::default().timeout(LONG).answer_timeout(Duration::from_millis(200));
    let client = Client::connect_many_with(&addresses, options).unwrap();
    let began = Instant::now();
    fill(&client, 0..10, |_| 1.0).await;
    assert_eq!(client.sample("t", 10).await.unwrap().len(), 10);
    assert!(began.elapsed() < AT_MOST, "{:?}", began.elapsed());
    let states = client.servers();
    assert_eq!(states[1].standing, ServerStanding::Away);
    assert!(states[1].reason.contains("has not answered within"), "{states:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_any_reachable_server_the_error_names_all() {
    let gone = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap().to_string()
    };
    let options = ClientOptions::default().timeout(Duration::from_millis(300));
    let client = Client::connect_many_with(&[gone.as_str()], options).unwrap();
    let error = client.server_info().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(error.to_string().contains(&gone), "{error}");
    let options = SamplerOptions::default().unavailable_timeout(Duration::from_millis(100));
    let error = client.sampler("t", options).unwrap().next().await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let mut writer = client.trajectory_writer(TrajectoryWriterOptions::new(1).validate_items(false)).unwrap();
    write(&mut writer, 1, 1.0).await;
    let error = writer.flush(Duration::from_millis(100)).await.unwrap_err();
    assert!(error.is_timeout() && error.to_string().contains(&gone), "{error}");
    writer.close_now();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dns_name_expands_to_its_addresses_and_a_server_counts_once() {
    let localhost = "127.0.0.1:0".parse().unwrap();
    let server = TestServer::start_at(localhost, [uniform()]).await;
    let port = server.address.port();
    let options = ClientOptions::default().timeout(LONG);
    let named = Client::connect_with(format!("dns:///localhost:{port}"), options.clone()).unwrap();
    fill(&named, 0..3, |_| 1.0).await;
    assert_eq!(named.servers()[0].address, format!("127.0.0.1:{port}"));
    let twice = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
    let client = Client::connect_many_with(&twice, options).unwrap();
    wait_for_standing(&client, &twice[0], ServerStanding::Up).await;
    wait_for_standing(&client, &twice[1], ServerStanding::Away).await;
    assert_eq!(client.server_info().await.unwrap().table("t").unwrap().current_size, 3);
    // A call to all servers reaches this one once.
    client.reset("t").await.unwrap();
    client.add_table(TableConfig::queue("u", 10)).await.unwrap();
    assert_eq!(client.server_info().await.unwrap().table("t").unwrap().current_size, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partially_added_table_is_added_on_the_remaining_servers() {
    let fleet = Fleet::start(&uniform()).await;
    let queue = |size| TableConfig::queue("u", size).seed(3);
    fleet.one(1).add_table(queue(10)).await.unwrap();
    let error = fleet.client.add_table(queue(11)).await.unwrap_err();
    assert!(error.to_string().contains("succeeded on 3 of 4 servers"), "{error}");
    fleet.client.drop_table("u").await.unwrap();
    fleet.one(1).add_table(queue(10)).await.unwrap();
    fleet.client.add_table(queue(10)).await.unwrap();
    assert!(fleet.client.status().await.unwrap().table("u").is_some());
    let error = fleet.client.add_table(queue(10)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partially_dropped_table_is_dropped_on_the_remaining_servers() {
    let fleet = Fleet::start(&uniform()).await;
    fleet.client.add_table(TableConfig::queue("u", 10)).await.unwrap();
    fleet.one(1).drop_table("t").await.unwrap();
    fleet.client.drop_table("t").await.unwrap();
    assert!(fleet.client.server_info().await.unwrap().table("t").is_none());
    assert_eq!(fleet.client.drop_table("t").await.unwrap_err().kind(), ErrorKind::NotFound);
}
