//! Tests that failures are reported in time and with the right kinds.

use std::time::Duration;

use crate::common::{LONG, TestServer, client, leaf};
use relive::{
    BatchOptions, Client, ErrorKind, SamplerOptions, SelectorKind, TableConfig, TrajectoryWriterOptions,
};

const SHORT: Duration = Duration::from_millis(50);

#[tokio::test]
async fn unknown_tables() {
    let server = TestServer::start([TableConfig::new("t")]).await;
    let client = server.client();
    let mut writer = client.trajectory_writer(TrajectoryWriterOptions::new(1)).unwrap();
    writer.append(&leaf(1)).unwrap();
    let column = writer.history().column_at(0).unwrap().step(-1).unwrap();
    let error = writer.create_item("nope", 1.0, column.clone()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("\"t\""), "the known tables are named: {error}");
    // Nothing was sent, so the writer still works.
    writer.create_item("t", 1.0, column).await.unwrap();
    writer.close().await.unwrap();

    assert_eq!(client.sample("nope", 1).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(client.reset("nope").await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(client.update_priorities("nope", &[]).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(client.insert(&leaf(1), &[("nope", 1.0)]).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(client.insert(&leaf(1), &[]).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn numbers_out_of_range_are_named() {
    let server = TestServer::start([TableConfig::new("t")]).await;
    let error = server.client().sample("t", 0).await.unwrap_err();
    assert_eq!(error.to_string(), "sample: num_samples must be at least 1");
    let error = server.client().sampler("t", SamplerOptions::default().num_workers(usize::MAX)).unwrap_err();
    assert!(error.to_string().contains("num_workers is 18446744073709551615; the limit is 65536"), "{error}");
}

#[tokio::test]
async fn a_blocking_client_may_be_dropped_in_a_task() {
    let server = TestServer::start([TableConfig::new("t")]).await;
    drop(relive::blocking::Client::connect(server.address).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn threads_outside_the_runtime_create_writers_and_samplers() {
    let server = TestServer::start([TableConfig::new("t")]).await;
    let client = server.client();
    let begin = move || {
        let writer = client.trajectory_writer(TrajectoryWriterOptions::new(1)).unwrap();
        let sampler = client.sampler("t", SamplerOptions::default()).unwrap();
        let batches = client.batches("t", BatchOptions::new(1)).unwrap();
        (writer, sampler, batches)
    };
    let (mut writer, mut sampler, _batches) = std::thread::spawn(begin).join().unwrap();
    writer.append(&leaf(7)).unwrap();
    let column = writer.history().column_at(0).unwrap().step(-1).unwrap();
    writer.create_item("t", 1.0, column).await.unwrap();
    writer.close().await.unwrap();
    assert!(sampler.next().await.unwrap().is_ok());
}

#[tokio::test]
async fn an_insert_that_a_table_refuses_reaches_the_tables_before_it() {
    let server = TestServer::start([TableConfig::new("t")]).await;
    for (client, items) in [(server.client(), 2), (server.client_in_process(), 4)] {
        for refused in [("nope", 1.0), ("t", f64::NAN)] {
            let error = client.insert(&leaf(1), &[("t", 1.0), refused]).await.unwrap_err();
            let kind = if refused.1.is_nan() { ErrorKind::InvalidArgument } else { ErrorKind::NotFound };
            assert_eq!(error.kind(), kind, "{error}");
        }
        assert_eq!(client.server_info().await.unwrap().table("t").unwrap().current_size, items);
    }
}

#[tokio::test]
async fn every_later_call_returns_a_permanent_error() {
    let server = TestServer::start([TableConfig::new("t")]).await;
    let options = TrajectoryWriterOptions::new(1).validate_items(false);
    let mut writer = server.client().trajectory_writer(options).unwrap();
    writer.append(&leaf(1)).unwrap();
    let column = writer.history().column_at(0).unwrap().step(-1).unwrap();
    writer.create_item("nope", 1.0, column.clone()).await.unwrap();
    for _ in 0..2 {
        assert_eq!(writer.flush(LONG).await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(writer.append(&leaf(1)).unwrap_err().kind(), ErrorKind::NotFound);
        let error = writer.create_item("t", 1.0, column.clone()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains("nope"), "{error}");
        assert_eq!(writer.end_episode(true, LONG).await.unwrap_err().kind(), ErrorKind::NotFound);
    }
}

/// Returns an address at which there is no server.
fn free_address() -> std::net::SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[tokio::test]
async fn a_sample_that_is_late_because_of_an_outage_names_the_reason() {
    let two = [free_address(), free_address()].map(|address| address.to_string());
    for client in [client(free_address(), LONG), Client::connect_many(&two).unwrap()] {
        let options = SamplerOptions::default().unavailable_timeout(LONG);
        let mut sampler = client.sampler("t", options).unwrap();
        let error = sampler.next_batch_with_timeout(1, SHORT).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("connect error"), "{error}");
        // Programs that wait repeatedly for short times continue until the client's timeout.
        let error = sampler.next_with_timeout(SHORT).await.unwrap().unwrap_err();
        assert!(error.is_timeout() && error.to_string().contains("connect error"), "{error}");
        for prefetch in [0, 1] {
            let mut batches = client.batches("t", BatchOptions::new(2).prefetch(prefetch)).unwrap();
            let named = async {
                // The first wait may end before the first attempt to connect does.
                loop {
                    let error = batches.next_within(Some(SHORT)).await.unwrap().unwrap_err();
                    assert!(error.is_timeout(), "{error}");
                    if error.to_string().contains("connect error") {
                        return;
                    }
                }
            };
            tokio::time::timeout(LONG, named).await.expect("the timeout names the outage");
        }
    }
}

#[tokio::test]
async fn a_call_respects_its_timeout() {
    let free = free_address();
    let client = client(free, SHORT);
    let patient = client.with_timeout(SHORT * 2);
    for (client, time) in [(&client, "after 50ms"), (&patient, "after 100ms")] {
        for error in [
            client.drop_table("t").await.unwrap_err(),
            client.items("t", 0, 1).await.unwrap_err(),
            client.reset("t").await.unwrap_err(),
        ] {
            assert!(error.is_timeout() && error.to_string().contains(time), "{error}");
        }
        // A checkpoint call does not wait for the server.
        assert_eq!(client.checkpoint().await.unwrap_err().kind(), ErrorKind::Unavailable);
    }
}

/// If the reset were retried, items that the server has loaded in the meantime would be lost.
#[tokio::test]
async fn a_reset_whose_answer_is_lost_is_not_retried() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = client(listener.local_addr().unwrap(), LONG);
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        // HTTP/2's preface, settings and the request; then the connection breaks.
        let mut request = [0; 24];
        tokio::io::AsyncReadExt::read_exact(&mut socket, &mut request).await.unwrap();
        drop(socket);
        // A second connection would be accepted, but never answered.
        std::future::pending::<()>().await;
        drop(listener);
    });
    let error = client.reset("t").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    server.abort();
}

#[tokio::test]
async fn a_priority_refused_by_the_table_is_an_error() {
    let table = TableConfig::new("t").sampler(SelectorKind::Prioritized { exponent: 1.0 });
    let server = TestServer::start([table]).await;
    let client = server.client();
    let error = client.insert(&leaf(1), &[("t", -1.0)]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    let error = client.insert(&leaf(1), &[("t", f64::NAN)]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    client.insert(&leaf(1), &[("t", 1.0)]).await.unwrap();
    let key = client.sample("t", 1).await.unwrap()[0].info().key;
    let error = client.update_priorities("t", &[(key, f64::INFINITY)]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
}

#[tokio::test]
async fn a_rate_limiter_timeout_is_a_timeout_error() {
    let server = TestServer::start([TableConfig::new("t")]).await;
    let client = server.client();
    let error = client.with_timeout(SHORT).sample("t", 1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(error.to_string().contains("Timeout exceeded"), "{error}");

    let options = SamplerOptions::default().rate_limiter_timeout(Duration::ZERO);
    let mut sampler = client.sampler("t", options).unwrap();
    for _ in 0..2 {
        assert_eq!(sampler.next().await.unwrap().unwrap_err().kind(), ErrorKind::Timeout);
    }
    // The client still works after a timeout.
    client.insert(&leaf(7_i64), &[("t", 1.0)]).await.unwrap();
    let sample = loop {
        match sampler.next().await.unwrap() {
            Ok(sample) => break sample,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Timeout),
        }
    };
    assert_eq!(sample.columns().unwrap()[0].to_vec::<i64>().unwrap(), [7]);
}

#[tokio::test]
async fn fewer_samples_are_returned_when_the_timeout_expires() {
    let server = TestServer::start([TableConfig::queue("q", 10)]).await;
    let client = server.client();
    client.insert(&leaf(1_i64), &[("q", 1.0)]).await.unwrap();
    assert_eq!(client.with_timeout(Duration::from_millis(300)).sample("q", 3).await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_absent_server_is_an_error() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let client = client(address, SHORT);
    let error = client.server_info().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(error.to_string().contains("Deadline Exceeded"), "{error}");
    let error = client.sample("t", 1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");

    let options = TrajectoryWriterOptions::new(1).validate_items(false);
    let mut writer = client.trajectory_writer(options).unwrap();
    writer.append(&leaf(1)).unwrap();
    let column = writer.history().column_at(0).unwrap().step(-1).unwrap();
    writer.create_item("t", 1.0, column).await.unwrap();
    let error = writer.flush(SHORT).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(error.to_string().contains("1 items not confirmed"), "{error}");
    assert!(error.to_string().contains("cannot be reached"), "{error}");
    assert_eq!(writer.pending_items(), 1);
    assert_eq!(writer.close().await.unwrap_err().kind(), ErrorKind::Timeout);
}

#[tokio::test]
async fn an_unresponsive_server_causes_a_timeout() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = client(listener.local_addr().unwrap(), SHORT);
    assert_eq!(client.server_info().await.unwrap_err().kind(), ErrorKind::Timeout);
    let mut sampler = client.sampler("t", SamplerOptions::default()).unwrap();
    let error = sampler.next_with_timeout(SHORT).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
}

#[tokio::test]
async fn invalid_items_are_refused() {
    let server = TestServer::start([TableConfig::new("t")]).await;
    let client = server.client();
    let mut writer = client.trajectory_writer(TrajectoryWriterOptions::new(1)).unwrap();
    let mut other = client.trajectory_writer(TrajectoryWriterOptions::new(1)).unwrap();
    for writer in [&mut writer, &mut other] {
        writer.append(&leaf(1)).unwrap();
    }
    let mine = writer.history().column_at(0).unwrap().step(-1).unwrap();
    let foreign = other.history().column_at(0).unwrap().step(-1).unwrap();
    for (priority, columns, why) in [
        (f64::NAN, vec![mine.clone()], "NaN"),
        (1.0, vec![], "no columns"),
        (1.0, vec![mine, foreign], "another writer"),
    ] {
        let error = writer.create_item("t", priority, columns).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[test]
fn the_blocking_client_needs_no_runtime() {
    let (address, stop) = std::thread::scope(|scope| scope.spawn(start_in_thread).join().unwrap());
    let client = relive::blocking::Client::connect(address).unwrap();
    let mut writer = client.trajectory_writer(TrajectoryWriterOptions::new(2)).unwrap();
    for i in 0..3_i64 {
        writer.append(&leaf(i)).unwrap();
    }
    let last_two = writer.history().column_at(0).unwrap().slice(-2..).unwrap();
    writer.create_item("t", 1.0, last_two).unwrap();
    writer.close().unwrap();
    let mut sampler = client.sampler("t", SamplerOptions::default().max_samples(2)).unwrap();
    for _ in 0..2 {
        let sample = sampler.next().unwrap().unwrap();
        assert_eq!(sample.columns().unwrap()[0].to_vec::<i64>().unwrap(), [1, 2]);
    }
    assert!(sampler.next().is_none());
    let error = client.with_timeout(SHORT).sample("nope", 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    drop(stop);
}

/// Returns a server on a runtime that lives as long as the returned value.
fn start_in_thread() -> (std::net::SocketAddr, tokio::runtime::Runtime) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = runtime.block_on(TestServer::start([TableConfig::new("t")]));
    let address = server.address;
    runtime.spawn(async move {
        let _keep = server;
        std::future::pending::<()>().await;
    });
    (address, runtime)
}

#[test]
fn a_client_whose_runtime_has_ended_says_so() {
    let runtime = || tokio::runtime::Runtime::new().unwrap();
    let (of_server, of_client) = (runtime(), runtime());
    let server = of_server.block_on(TestServer::start([TableConfig::new("t")]));
    let client = of_client.block_on(async {
        let client = server.client();
        client.server_info().await.unwrap();
        client
    });
    drop(of_client);
    let error = of_server.block_on(client.server_info()).unwrap_err();
    assert!(error.to_string().contains("the Tokio runtime in which it was created has ended"), "{error}");
}
