//! Tests that blocking calls behave the same over the network and in process.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::common::{LONG, Proxy, TestServer, client, leaf, values};
use relive::blocking;
use relive::{
    Client, ErrorKind, Result, Sample, SampleCall, SelectorKind, Server, ServerOptions, TableConfig,
    UnaryCall,
};

const SHORT: Duration = Duration::from_millis(20);

async fn start() -> TestServer {
    TestServer::start([TableConfig::new("t").sampler(SelectorKind::Fifo).max_times_sampled(1)]).await
}

async fn insert(server: &TestServer, items: std::ops::Range<i64>) {
    for item in items {
        server.client().insert(&leaf(item), &[("t", 1.0)]).await.unwrap();
    }
}

/// Runs a blocking function in a thread that may block.
async fn on_a_thread<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(act).await.unwrap()
}

async fn sample(client: &Client, samples: usize, timeout: Duration) -> Result<Vec<Sample>> {
    let client = client.clone();
    on_a_thread(move || client.sample_call("t", samples, Some(timeout))?.finish()).await
}

async fn wait(mut call: SampleCall, at_most: Duration) -> (SampleCall, Option<Result<Vec<Sample>>>) {
    on_a_thread(move || {
        let got = call.wait(at_most);
        (call, got)
    })
    .await
}

/// Waits until exactly one caller is waiting for the table.
async fn somebody_waits(server: &TestServer) {
    while server.client_in_process().status().await.unwrap().tables[0].waiters.is_empty() {
        tokio::task::yield_now().await;
    }
}

async fn nobody_waits(server: &TestServer) {
    while !server.client_in_process().status().await.unwrap().tables[0].waiters.is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn sequential_and_concurrent_sample_calls() {
    let server = start().await;
    insert(&server, 0..20).await;
    for (client, first) in [(server.client(), 0), (server.client_in_process(), 10)] {
        for item in first..first + 5 {
            assert_eq!(values(&sample(&client, 1, LONG).await.unwrap()), [[item]]);
        }
        let several = values(&sample(&client, 5, LONG).await.unwrap()).concat();
        assert_eq!(several, (first + 5..first + 10).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_timeout_returns_the_available_samples_or_an_error() {
    let server = start().await;
    for client in [server.client(), server.client_in_process()] {
        insert(&server, 0..2).await;
        assert_eq!(values(&sample(&client, 3, SHORT).await.unwrap()), [[0], [1]]);
        let error = sample(&client, 1, SHORT).await.unwrap_err();
        assert!(error.is_timeout());
        assert!(error.to_string().contains("Rate Limiter: Timeout exceeded"), "{error}");
        assert!(error.to_string().contains("needs 1 more items in the table"), "{error}");
        // The next call still works.
        insert(&server, 5..6).await;
        assert_eq!(values(&sample(&client, 1, LONG).await.unwrap()), [[5]]);
    }
}

#[tokio::test]
async fn an_interrupted_wait_can_be_continued() {
    let server = start().await;
    for client in [server.client(), server.client_in_process()] {
        let call = client.sample_call("t", 2, None).unwrap();
        let (call, got) = wait(call, SHORT).await;
        assert!(got.is_none());
        insert(&server, 0..1).await;
        let (call, got) = wait(call, SHORT).await;
        assert!(got.is_none(), "one of two");
        insert(&server, 1..2).await;
        let (_, got) = wait(call, LONG).await;
        assert_eq!(values(&got.unwrap().unwrap()), [[0], [1]]);
    }
}

#[tokio::test]
async fn a_dropped_call_withdraws_its_request() {
    let server = start().await;
    for client in [server.client(), server.client_in_process()] {
        let call = client.sample_call("t", 1, None).unwrap();
        let waiting = tokio::spawn(wait(call, Duration::from_millis(300)));
        somebody_waits(&server).await;
        let (call, got) = waiting.await.unwrap();
        assert!(got.is_none());
        on_a_thread(move || drop(call)).await;
        nobody_waits(&server).await;
        insert(&server, 7..8).await;
        assert_eq!(values(&sample(&client, 1, LONG).await.unwrap()), [[7]]);
    }
    assert_eq!(server.client().status().await.unwrap().tables[0].undelivered_samples, 0);
}

#[tokio::test]
async fn many_threads_call_at_once() {
    let server = start().await;
    insert(&server, 0..60).await;
    for (client, first) in [(server.client(), 0), (server.client_in_process(), 30)] {
        let calls: Vec<_> = (0..30)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(async move { sample(&client, 1, LONG).await })
            })
            .collect();
        let mut seen = Vec::new();
        for call in calls {
            seen.extend(values(&call.await.unwrap().unwrap()).concat());
        }
        seen.sort_unstable();
        assert_eq!(seen, (first..first + 30).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_restarted_server_is_found_again() {
    let server = start().await;
    let (client, address) = (server.client(), server.address);
    insert(&server, 0..1).await;
    assert_eq!(values(&sample(&client, 1, LONG).await.unwrap()), [[0]]);
    server.stop().await;

    let error = sample(&client, 1, SHORT).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let early = client.clone();
    let waiting = tokio::spawn(async move { sample(&early, 1, LONG).await });
    let table = TableConfig::new("t").sampler(SelectorKind::Fifo).max_times_sampled(1);
    let server = TestServer::start_at(address, [table]).await;
    insert(&server, 1..2).await;
    assert_eq!(values(&waiting.await.unwrap().unwrap()), [[1]]);
}

#[tokio::test]
async fn a_closed_table_ends_a_wait_at_once() {
    let server = start().await;
    let client = server.client_in_process();
    let waiting = tokio::spawn(async move { (sample(&client, 1, LONG).await, Instant::now()) });
    somebody_waits(&server).await;
    server.stop().await;
    let error = waiting.await.unwrap().0.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert!(error.to_string().contains("RateLimiter has been cancelled"), "{error}");
}

#[tokio::test]
async fn invalid_calls_are_errors() {
    let server = start().await;
    for client in [server.client(), server.client_in_process()] {
        let error = client.sample_call("t", 0, None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let unknown = on_a_thread(move || client.sample_call("no", 1, Some(LONG))?.finish()).await;
        assert_eq!(unknown.unwrap_err().kind(), ErrorKind::NotFound);
    }
}

#[tokio::test]
async fn a_blocking_client_samples_from_a_thread() {
    let server = start().await;
    insert(&server, 0..3).await;
    let address = server.address.to_string();
    let samples = on_a_thread(move || blocking::Client::connect(&address)?.sample("t", 3)).await;
    assert_eq!(values(&samples.unwrap()), [[0], [1], [2]]);
}

async fn finish<T: Send + 'static>(call: Option<UnaryCall<T>>) -> Result<T> {
    let call = call.expect("the client has one server");
    on_a_thread(move || call.finish()).await
}

async fn update(client: &Client, key: u64, priority: f64) -> Result<()> {
    finish(client.mutate_priorities_call("t", &[(key, priority)], &[])).await
}

async fn sizes(client: &Client) -> Vec<u64> {
    client.server_info().await.unwrap().tables.iter().map(|table| table.current_size).collect()
}

#[tokio::test]
async fn sequential_calls_of_one_thread_share_a_connection() {
    let server =
        TestServer::start([TableConfig::new("t").sampler(SelectorKind::Prioritized { exponent: 1.0 })]).await;
    insert(&server, 0..2).await;
    let proxy = Proxy::start(server.address).await;
    let client = proxy.client();
    for _ in 0..5 {
        let samples = sample(&client, 1, LONG).await.unwrap();
        update(&client, samples[0].info().key, 0.0).await.unwrap();
    }
    assert_eq!(proxy.connections.load(Ordering::SeqCst), 1);
    let kept = sample(&client, 1, LONG).await.unwrap();
    finish(client.mutate_priorities_call("t", &[], &[kept[0].info().key])).await.unwrap();
    assert_eq!(sizes(&client).await, [1]);
}

#[tokio::test]
async fn a_call_outlasts_lost_connections_and_restarts() {
    let server = start().await;
    insert(&server, 0..1).await;
    let proxy = Proxy::start(server.address).await;
    let (through, direct, address) = (proxy.client(), server.client(), server.address);
    for _ in 0..3 {
        update(&through, 1, 1.0).await.unwrap();
        // The idle connection breaks before the next call.
        proxy.cut();
    }
    assert_eq!(sizes(&direct).await, [1]);
    server.stop().await;
    let mut waiting = direct.mutate_priorities_call("t", &[(1, 1.0)], &[]).unwrap();
    let (mut waiting, early) = on_a_thread(move || {
        let early = waiting.wait(SHORT);
        (waiting, early)
    })
    .await;
    assert!(early.is_none(), "no server answers");
    let late = client(address, SHORT);
    assert_eq!(update(&late, 1, 1.0).await.unwrap_err().kind(), ErrorKind::Timeout);
    let _server = TestServer::start_at(address, [TableConfig::new("t")]).await;
    on_a_thread(move || waiting.wait(LONG)).await.unwrap().unwrap();
    assert_eq!(sizes(&direct).await, [0]);
}

#[tokio::test]
async fn priority_updates_to_a_server_that_is_stopping_wait_for_its_successor() {
    let server = start().await;
    let (client, address) = (server.client(), server.address);
    let mut update = client.mutate_priorities_call("t", &[(1, 1.0)], &[]).unwrap();
    server.engine().close();
    let (mut update, early) = on_a_thread(move || {
        let early = update.wait(SHORT);
        (update, early)
    })
    .await;
    assert!(early.is_none(), "the tables are closed");
    // A reset is not repeated, because another client may insert items in the meantime.
    let error = client.reset("t").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("the server is stopping"), "{error}");
    server.stop().await;
    let _server = TestServer::start_at(address, [TableConfig::new("t")]).await;
    on_a_thread(move || update.wait(LONG)).await.unwrap().unwrap();
}

#[tokio::test]
async fn errors_of_calls_leave_their_connection_usable() {
    let server = start().await;
    let client = server.client();
    let unknown = finish(client.mutate_priorities_call("no", &[(1, 1.0)], &[])).await.unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::NotFound, "{unknown}");
    for invalid in [f64::NAN, -1.0] {
        let table = TableConfig::new("p").sampler(SelectorKind::Prioritized { exponent: 1.0 });
        let prioritized = TestServer::start([table]).await;
        prioritized.client().insert(&leaf(1_i64), &[("p", 1.0)]).await.unwrap();
        let key = prioritized.client_in_process().items("p", 0, 1).await.unwrap().items[0].key;
        let call = prioritized.client().mutate_priorities_call("p", &[(key, invalid)], &[]);
        assert_eq!(finish(call).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    drop(client.mutate_priorities_call("t", &[(1, 1.0)], &[]));
    update(&client, 1, 1.0).await.unwrap();
    let in_process = server.client_in_process().mutate_priorities_call("t", &[], &[1]);
    assert!(in_process.is_none(), "such calls need no connection");
}

#[tokio::test]
async fn a_server_does_not_wait_for_idle_connections_to_confirm_its_end() {
    let options = ServerOptions::default().workers(1).drain_timeout(Duration::from_secs(3600));
    let server = Server::builder().table(TableConfig::new("t")).options(options);
    let server = server.bind("127.0.0.1:0").await.unwrap();
    let idle = client(server.address(), LONG);
    idle.insert(&leaf(1_i64), &[("t", 1.0)]).await.unwrap();
    assert_eq!(sample(&idle, 1, LONG).await.unwrap().len(), 1);
    update(&idle, 1, 1.0).await.unwrap();
    tokio::time::timeout(LONG, server.stop()).await.expect("the server stops early").unwrap();
}
