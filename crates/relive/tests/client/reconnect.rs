//! Tests connections that break between or inside messages, and servers that restart.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::common::{LONG, Proxy, TestServer, client, client_by, grpc_server, leaf, values};
use relive::{
    ErrorKind, SamplerOptions, SelectorKind, Server, ServerOptions, TableConfig, TrajectoryWriter,
    TrajectoryWriterOptions, TransportChoice,
};

fn fifo() -> TableConfig {
    TableConfig::new("t").sampler(SelectorKind::Fifo).max_times_sampled(1)
}

async fn add(writer: &mut TrajectoryWriter, value: i64) {
    writer.append(&leaf(value)).unwrap();
    let newest = writer.history().column_at(0).unwrap();
    let rows = i64::try_from(newest.len().min(3)).unwrap();
    let rows = newest.slice(-rows..).unwrap();
    writer.create_item("t", 1.0, rows).await.unwrap();
}

fn expected(items: i64) -> Vec<Vec<i64>> {
    (0..items).map(|i| ((i - 2).max(0)..=i).collect()).collect()
}

#[tokio::test]
async fn items_arrive_once_and_in_order_despite_many_cuts() {
    let server = TestServer::start([fifo()]).await;
    let proxy = Proxy::start(server.address).await;
    let mut writer = proxy.client().trajectory_writer(TrajectoryWriterOptions::new(4)).unwrap();
    for i in 0..300 {
        add(&mut writer, i).await;
        if i % 30 == 7 {
            proxy.cut();
        }
        if i % 30 == 22 {
            tokio::task::yield_now().await;
        }
    }
    writer.close().await.unwrap();
    let samples = server.client().sample("t", 300).await.unwrap();
    assert_eq!(values(&samples), expected(300));
    assert_eq!(server.client().server_info().await.unwrap().tables[0].inserts, 300);
}

#[tokio::test]
async fn cuts_inside_a_message() {
    for bytes in [100, 500, 3000, 7000, 20_000] {
        let server = TestServer::start([fifo()]).await;
        let proxy = Proxy::start(server.address).await;
        proxy.cut_after(bytes);
        let options = TrajectoryWriterOptions::new(4).validate_items(false);
        let mut writer = proxy.client().trajectory_writer(options).unwrap();
        for i in 0..400 {
            add(&mut writer, i).await;
        }
        writer.close().await.unwrap();
        assert_eq!(
            values(&server.client().sample("t", 400).await.unwrap()),
            expected(400),
            "cut after {bytes} bytes"
        );
    }
}

#[tokio::test]
async fn a_writer_survives_its_server() {
    let server = TestServer::start([fifo()]).await;
    let address = server.address;
    let options = TrajectoryWriterOptions::new(4).validate_items(false);
    let mut writer = client(address, LONG).trajectory_writer(options).unwrap();
    add(&mut writer, 0).await;
    writer.flush(LONG).await.unwrap();
    server.stop().await;
    for i in 1..=3 {
        add(&mut writer, i).await;
    }
    let waiting = Duration::from_millis(30);
    assert!(writer.flush(waiting).await.unwrap_err().is_timeout());
    let server = TestServer::start_at(address, [fifo()]).await;
    writer.close().await.unwrap();
    let samples = server.client().sample("t", 3).await.unwrap();
    assert_eq!(values(&samples), expected(4)[1..]);
}

#[tokio::test]
async fn a_sampler_survives_cut_connections() {
    let server = TestServer::start([TableConfig::new("t")]).await;
    server.client().insert(&leaf(7_i64), &[("t", 1.0)]).await.unwrap();
    let proxy = Proxy::start(server.address).await;
    let options =
        SamplerOptions::default().max_in_flight_samples_per_worker(5).max_samples(500).num_workers(2);
    let mut sampler = proxy.client().sampler("t", options).unwrap();
    let mut samples = 0;
    while let Some(sample) = sampler.next().await {
        assert_eq!(sample.unwrap().columns().unwrap()[0].to_vec::<i64>().unwrap(), [7]);
        samples += 1;
        if samples % 100 == 50 {
            proxy.cut();
        }
    }
    assert_eq!(samples, 500);
    assert!(proxy.connections.load(Ordering::SeqCst) > 1);
}

#[tokio::test]
async fn a_sampler_waits_for_a_new_server() {
    let server = TestServer::start([TableConfig::new("t")]).await;
    let address = server.address;
    let client = client(address, LONG);
    client.insert(&leaf(1_i64), &[("t", 1.0)]).await.unwrap();
    let options = SamplerOptions::default().max_in_flight_samples_per_worker(1);
    let mut sampler = client.sampler("t", options).unwrap();
    assert!(sampler.next().await.unwrap().is_ok());
    server.stop().await;
    let _server = TestServer::start_at(address, [TableConfig::new("t")]).await;
    client.insert(&leaf(2_i64), &[("t", 1.0)]).await.unwrap();
    let newest = loop {
        let sample = sampler.next().await.unwrap().unwrap();
        let value = sample.columns().unwrap()[0].to_vec::<i64>().unwrap();
        if value == [2] {
            break value;
        }
    };
    assert_eq!(newest, [2]);
}

#[tokio::test]
async fn samplers_reopen_streams_after_max_samples_per_stream() {
    let server = TestServer::start([TableConfig::new("t")]).await;
    let client = server.client();
    client.insert(&leaf(1_i64), &[("t", 1.0)]).await.unwrap();
    let options = SamplerOptions::default().max_samples(103).max_samples_per_stream(10);
    let mut sampler = client.sampler("t", options).unwrap();
    assert_eq!(sampler.next_batch(200).await.unwrap().len(), 103);
    assert_eq!(client.server_info().await.unwrap().tables[0].samples, 103);
}

#[tokio::test]
async fn a_dropped_sampler_removes_no_more_than_it_requested() {
    let server = TestServer::start([TableConfig::queue("q", 100)]).await;
    let client = server.client();
    let options = SamplerOptions::default().max_in_flight_samples_per_worker(8);
    let mut sampler = client.sampler("q", options).unwrap();
    client.insert(&leaf(0_i64), &[("q", 1.0)]).await.unwrap();
    assert!(sampler.next().await.unwrap().is_ok());
    drop(sampler);
    let mut taken_by_nobody = 0;
    for i in 1..=20_i64 {
        client.insert(&leaf(i), &[("q", 1.0)]).await.unwrap();
        taken_by_nobody =
            u64::try_from(i).unwrap() - client.server_info().await.unwrap().tables[0].current_size;
    }
    // Samples that were in flight when the stream ended may be lost, but no later ones.
    assert!(taken_by_nobody <= 8, "{taken_by_nobody} items were lost");
}

#[tokio::test]
async fn a_client_beyond_the_connection_limit_waits_for_a_slot() {
    let options = ServerOptions::default().workers(1).max_connections(1);
    let server = Server::builder().table(fifo()).options(options);
    let server = server.bind("127.0.0.1:0").await.unwrap();
    let first = client_by(TransportChoice::Tcp, server.address(), LONG);
    first.server_info().await.unwrap();
    let proxy = Proxy::start(server.address()).await;
    let second = proxy.client();
    let asking = tokio::spawn(async move { second.server_info().await });
    while proxy.connections.load(Ordering::SeqCst) < 4 {
        assert!(!asking.is_finished(), "it gave up after one refusal");
        tokio::task::yield_now().await;
    }
    drop(first);
    asking.await.unwrap().unwrap();
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_call_survives_a_connection_cut_at_any_byte() {
    let server = TestServer::start([fifo()]).await;
    let proxy = Proxy::start(server.address).await;
    for bytes in (0..400).step_by(7) {
        proxy.cut_after(bytes);
        let client = proxy.client();
        client.server_info().await.unwrap_or_else(|error| panic!("cut after {bytes} bytes: {error}"));
        proxy.cut();
        client.server_info().await.unwrap_or_else(|error| panic!("cut after an answer: {error}"));
    }
}

#[tokio::test]
async fn a_server_that_accepts_connections_but_never_serves_is_unavailable() {
    let address = grpc_server(|_| ("14", Vec::new())).await;
    let patience = Duration::from_secs(2);
    let options = SamplerOptions::default().unavailable_timeout(patience);
    let mut sampler = client(address, LONG).sampler("t", options).unwrap();
    let error = sampler.next_with_timeout(5 * patience).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

#[tokio::test]
async fn a_sample_call_ends_in_time_even_if_samples_arrive_one_by_one() {
    let server = TestServer::start([fifo()]).await;
    let timeout = Duration::from_millis(300);
    for reader in [client(server.address, timeout), server.client_in_process().with_timeout(timeout)] {
        let writer = server.client();
        let trickle = async {
            let mut ticks = tokio::time::interval(Duration::from_millis(200));
            loop {
                ticks.tick().await;
                writer.insert(&leaf(1_i64), &[("t", 1.0)]).await.unwrap();
            }
        };
        let began = Instant::now();
        let samples = tokio::select! {
            samples = reader.sample("t", 20) => samples.unwrap(),
            () = trickle => unreachable!("it never ends"),
        };
        assert!(!samples.is_empty() && samples.len() < 20, "{} samples", samples.len());
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
        server.client().reset("t").await.unwrap();
    }
}
