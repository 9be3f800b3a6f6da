//! Tests unary calls, starting, stopping, and data on the port that no client would send.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::{DUE, Inserter, Sampler, TestServer, step};
use relive_table::{RateLimiterConfig, SelectorKind, TableConfig};
use relive_tensor::{DType, Nest, TensorSpec};
use relive_wire::reverb::{
    CheckpointRequest, InitializeConnectionRequest, KeyWithPriority, MutatePrioritiesRequest, ResetRequest,
    ServerInfoRequest,
};
use relive_wire::tensorflow::StructuredValue;
use relive_wire::tensorflow::structured_value::Kind;
use relive_wire::{structure, table, v1};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Code;

#[tokio::test]
async fn server_info_reports_configuration_and_counters() {
    let spec = TensorSpec {
        name: "obs".into(),
        shape: Some(vec![None, Some(3)]),
        dtype: DType::Float32,
        bounds: None,
    };
    let signature = Nest::Dict(BTreeMap::from([("obs".to_owned(), Nest::Leaf(spec))]));
    let config = TableConfig::new("t")
        .sampler(SelectorKind::Prioritized { exponent: 0.6 })
        .remover(SelectorKind::Lifo)
        .max_size(12)
        .max_times_sampled(-3)
        .rate_limiter(RateLimiterConfig::queue(4))
        .signature(signature);
    let server = TestServer::start([config.clone(), TableConfig::new("plain")]).await;
    let mut client = server.client().await;
    let mut inserter = Inserter::open(&mut client).await;
    inserter.send(step("t", 1));
    inserter.confirmed([1]).await;
    let info = client.server_info(ServerInfoRequest {}).await.unwrap().into_inner();
    let actual: BTreeMap<_, _> =
        info.table_info.iter().map(|t| (t.name.clone(), table::info_from_wire(t).unwrap())).collect();
    assert_eq!(*actual["t"].config, config);
    assert_eq!((actual["t"].current_size, actual["t"].inserts, actual["t"].num_episodes), (1, 1, 1));
    assert!(info.table_info.iter().any(|t| t.name == "plain" && t.signature.is_none()));
    let again = client.server_info(ServerInfoRequest {}).await.unwrap().into_inner();
    assert_eq!(again.tables_state_id, info.tables_state_id);
    assert_ne!(info.tables_state_id, Some(Default::default()));
    server.stop().await;
}

#[tokio::test]
async fn deletes_are_applied_before_priority_updates() {
    let table = TableConfig::new("t").sampler(SelectorKind::Prioritized { exponent: 1.0 });
    let server = TestServer::start([table]).await;
    let mut client = server.client().await;
    let mut inserter = Inserter::open(&mut client).await;
    (1..=3).for_each(|key| inserter.send(step("t", key)));
    inserter.confirmed(1..=3).await;
    let update = |key, priority| KeyWithPriority { key, priority };
    let mut request = MutatePrioritiesRequest {
        table: "t".into(),
        updates: vec![update(1, 9.0), update(2, 4.0), update(99, 1.0)],
        delete_keys: vec![1, 98],
    };
    client.mutate_priorities(request.clone()).await.unwrap();
    assert_eq!(server.engine.table("t").unwrap().info().current_size, 2);
    for bad in [-0.5, f64::NAN, f64::INFINITY] {
        request.updates = vec![update(2, 5.0), update(3, bad)];
        let status = client.mutate_priorities(request.clone()).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
    }
    let mut sampler = Sampler::open(&mut client).await;
    sampler.ask("t", 64, -1);
    for entry in sampler.next().await.unwrap().unwrap().entries {
        let item = entry.info.unwrap().item.unwrap();
        assert_eq!(item.priority, if item.key == 2 { 5.0 } else { 1.0 }, "a refused update changes nothing");
    }
    request.table = "no".into();
    assert_eq!(client.mutate_priorities(request).await.unwrap_err().code(), Code::NotFound);
    server.stop().await;
}

#[tokio::test]
async fn reset_checkpoint_and_initialize_are_answered() {
    let server = TestServer::start([TableConfig::new("t")]).await;
    let mut client = server.client().await;
    let mut inserter = Inserter::open(&mut client).await;
    inserter.send(step("t", 1));
    inserter.confirmed([1]).await;
    client.reset(ResetRequest { table: "t".into() }).await.unwrap();
    assert_eq!(server.engine.table("t").unwrap().info().current_size, 0);
    assert_eq!(client.reset(ResetRequest { table: "no".into() }).await.unwrap_err().code(), Code::NotFound);
    let status = client.checkpoint(CheckpointRequest {}).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    let hello = InitializeConnectionRequest {
        pid: i64::from(std::process::id()),
        table_name: "t".into(),
        ownership_transferred: false,
    };
    let mut answers = client.initialize_connection(tokio_stream::once(hello)).await.unwrap().into_inner();
    assert_eq!(answers.message().await.unwrap().unwrap().address, 0);
    assert!(answers.message().await.unwrap().is_none());
    let mut answers = client.initialize_connection(tokio_stream::empty()).await.unwrap().into_inner();
    let silent = answers.message().await.unwrap_err();
    assert_eq!(silent.code(), Code::Internal);
    server.stop().await;
}

#[tokio::test]
async fn describe_lists_waiters_with_their_reasons() {
    let server = TestServer::start([TableConfig::queue("q", 1)]).await;
    let mut client = server.client().await;
    let mut inserter = Inserter::open(&mut client).await;
    inserter.send(step("q", 1));
    inserter.send(step("q", 2));
    inserter.confirmed([1]).await;
    let mut tools = v1::replay_service_client::ReplayServiceClient::new(server.channel().await);
    let status = loop {
        let status = tools.describe(v1::DescribeRequest {}).await.unwrap().into_inner();
        if !status.tables[0].waiters.is_empty() {
            break status;
        }
    };
    let waiter = &status.tables[0].waiters[0];
    assert_eq!((waiter.operation(), waiter.missing), (v1::waiter::Operation::Insert, 1));
    assert!(waiter.who.starts_with("127.0.0.1:") && waiter.reason.contains("1 more sample"), "{waiter:?}");
    assert_eq!((status.insert_streams, status.sample_streams), (1, 0));
    let chunks = status.chunks.unwrap();
    assert_eq!((chunks.chunks, chunks.raw_bytes), (2, 8));
    assert!(status.tables[0].referenced_bytes > 0 && !status.version.is_empty());
    server.stop().await;
}

#[tokio::test]
async fn stopping_confirms_only_finished_inserts() {
    let mut server = TestServer::start([TableConfig::queue("q", 1), TableConfig::new("empty")]).await;
    let mut client = server.client().await;
    let mut blocked = Inserter::open(&mut client).await;
    blocked.send(step("q", 1));
    blocked.send(step("q", 2));
    blocked.confirmed([1]).await;
    let mut idle = Inserter::open(&mut client).await;
    let mut waiting = Sampler::open(&mut client).await;
    waiting.ask("empty", 1, -1);
    while server.engine.tables().iter().map(|table| table.status().waiters.len()).sum::<usize>() < 2 {
        tokio::task::yield_now().await;
    }
    server.begin_stop();
    let status = blocked.next().await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "the dropped insert is not confirmed");
    assert_eq!(idle.status().await.code(), Code::Unavailable);
    let status = waiting.status().await;
    assert_eq!((status.code(), status.message()), (Code::Cancelled, "RateLimiter has been cancelled"));
    assert_eq!(server.engine.table("q").unwrap().info().current_size, 1);
    server.stop().await;
}

#[tokio::test]
async fn two_servers_cannot_share_a_port() {
    let server = TestServer::start([TableConfig::new("t")]).await;
    let error = relive_server::bind(server.address).await.unwrap_err().to_string();
    assert!(error.contains(&server.address.to_string()) && error.contains("another server"), "{error}");
    server.stop().await;
}

#[tokio::test]
async fn garbage_on_the_port_affects_no_other_client() {
    let server = TestServer::start([TableConfig::new("t")]).await;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let mut frames = preface.to_vec();
    frames.extend_from_slice(&[0xff; 400]);
    for noise in
        [b"GET / HTTP/1.1\r\n\r\n".to_vec(), vec![0; 1000], b"PR".to_vec(), preface[..10].to_vec(), frames]
    {
        let mut socket = TcpStream::connect(server.address).await.unwrap();
        socket.write_all(&noise).await.unwrap();
        socket.shutdown().await.unwrap();
        let mut answer = Vec::new();
        // The server may reset the connection or close it; in both cases, the reading ends.
        let _ =
            tokio::time::timeout(DUE, socket.read_to_end(&mut answer)).await.expect("the connection ends");
    }
    let mut client = server.client().await;
    let mut inserter = Inserter::open(&mut client).await;
    inserter.send(step("t", 1));
    inserter.confirmed([1]).await;
    server.stop().await;
}

#[tokio::test]
async fn a_message_claiming_two_gigabytes_is_refused() {
    use bytes::Bytes;
    use http_body_util::{BodyExt, StreamBody};
    let server = TestServer::start([TableConfig::new("t")]).await;
    let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{}", server.address)).unwrap();
    let mut channel = endpoint.connect().await.unwrap();
    let mut head = vec![0_u8];
    head.extend_from_slice(&(1_u32 << 31).to_be_bytes());
    head.extend_from_slice(&[0; 1000]);
    let frame = Ok::<_, tonic::Status>(http_body::Frame::data(Bytes::from(head)));
    let body =
        StreamBody::new(tokio_stream::StreamExt::chain(tokio_stream::once(frame), tokio_stream::pending()));
    let request = http::Request::post("/deepmind.reverb.ReverbService/InsertStream")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(tonic::body::Body::new(body))
        .unwrap();
    std::future::poll_fn(|cx| tower::Service::poll_ready(&mut channel, cx)).await.unwrap();
    let response = tower::Service::call(&mut channel, request).await.unwrap();
    let collected = tokio::time::timeout(DUE, response.into_body().collect()).await.unwrap().unwrap();
    let status = tonic::Status::from_header_map(collected.trailers().unwrap()).unwrap();
    assert!(matches!(status.code(), Code::OutOfRange | Code::ResourceExhausted), "{status}");
    assert!(status.message().contains("2147483648"), "{status}");
    let mut inserter = Inserter::open(&mut server.client().await).await;
    inserter.send(step("t", 1));
    inserter.confirmed([1]).await;
    server.stop().await;
}

#[tokio::test]
async fn streams_cut_at_any_point_leave_the_server_intact() {
    let server = TestServer::start([TableConfig::new("t")]).await;
    for cut in 0..6 {
        let mut client = server.client().await;
        let inserter = Inserter::open(&mut client).await;
        (0..cut).for_each(|key| inserter.send(step("t", key)));
        let sampler = Sampler::open(&mut client).await;
        (0..cut).for_each(|_| sampler.ask("t", 1000, -1));
        drop((client, inserter, sampler));
    }
    let mut inserter = Inserter::open(&mut server.client().await).await;
    inserter.send(step("t", 1000));
    inserter.confirmed([1000]).await;
    let table = Arc::new(server.engine.table("t").unwrap().clone());
    while !table.status().waiters.is_empty() {
        tokio::task::yield_now().await;
    }
    server.stop().await;
}

/// Opens a raw stream of an RPC and sends these bytes on it; the body never ends.
async fn send_raw(channel: &mut tonic::transport::Channel, rpc: &str, bytes: Vec<u8>) -> tonic::Status {
    use http_body_util::{BodyExt, StreamBody};
    let frame = Ok::<_, tonic::Status>(http_body::Frame::data(bytes::Bytes::from(bytes)));
    let body =
        StreamBody::new(tokio_stream::StreamExt::chain(tokio_stream::once(frame), tokio_stream::pending()));
    let request = http::Request::post(format!("/deepmind.reverb.ReverbService/{rpc}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(tonic::body::Body::new(body))
        .expect("a request");
    std::future::poll_fn(|cx| tower::Service::poll_ready(channel, cx)).await.expect("the server is there");
    let response = tower::Service::call(channel, request).await.expect("an answer");
    let collected =
        tokio::time::timeout(DUE, response.into_body().collect()).await.expect("an end").expect("a body");
    tonic::Status::from_header_map(collected.trailers().expect("a status")).expect("a status")
}

/// Returns a message with its header.
fn framed(message: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0];
    bytes.extend_from_slice(&u32::try_from(message.len()).expect("a small message").to_be_bytes());
    bytes.extend_from_slice(message);
    bytes
}

#[tokio::test]
async fn announced_bytes_take_no_memory() {
    let server = TestServer::start([TableConfig::new("t")]).await;
    let mut client = server.client().await;
    let mut waiting = Vec::new();
    for _ in 0..200 {
        let mut channel = server.channel().await;
        let mut head = vec![0_u8];
        head.extend_from_slice(&(1_u32 << 30).to_be_bytes());
        waiting.push(tokio::spawn(async move { send_raw(&mut channel, "InsertStream", head).await }));
    }
    let address_space = || {
        let statm = std::fs::read_to_string("/proc/self/statm").expect("this process");
        statm.split(' ').next().and_then(|pages| pages.parse::<u64>().ok()).expect("a number of pages") * 4096
    };
    let mut inserter = Inserter::open(&mut client).await;
    inserter.send(step("t", 1));
    inserter.confirmed([1]).await;
    assert!(address_space() < 100 << 30, "200 announcements of 1 GiB each must not reserve it");
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
    server.stop().await;
}

#[tokio::test]
async fn a_request_of_very_many_small_parts_is_refused_before_it_is_decoded() {
    let server = TestServer::start([TableConfig::new("t")]).await;
    let mut channel = server.channel().await;
    let empty_items = framed(&[2 << 3 | 2, 0].repeat(4 << 20));
    let status = send_raw(&mut channel, "InsertStream", empty_items).await;
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    assert!(status.message().contains("send fewer at once"), "{status}");
    let mut compressed = framed(b"");
    compressed[0] = 1;
    let status = send_raw(&mut channel, "InsertStream", compressed).await;
    assert_eq!(status.code(), Code::Unimplemented, "{status}");
    server.stop().await;
}

#[tokio::test]
async fn messages_may_be_cut_anywhere_between_frames() {
    use relive_wire::Message;
    let server = TestServer::start([TableConfig::new("t")]).await;
    let mut bytes = framed(&step("t", 1).encode_to_vec());
    bytes.extend(framed(&step("t", 2).encode_to_vec()));
    for cut in [1, 4, 5, 6, 40, bytes.len() / 2 + 2, bytes.len() - 1] {
        let (head, tail) = bytes.split_at(cut);
        let (sender, parts) = tokio::sync::mpsc::unbounded_channel();
        for part in [head, tail] {
            let frame = http_body::Frame::data(bytes::Bytes::copy_from_slice(part));
            sender.send(Ok::<_, tonic::Status>(frame)).expect("the receiver is there");
        }
        drop(sender);
        let stream = tokio_stream::wrappers::UnboundedReceiverStream::new(parts);
        let request = http::Request::post("/deepmind.reverb.ReverbService/InsertStream")
            .header("content-type", "application/grpc")
            .body(tonic::body::Body::new(http_body_util::StreamBody::new(stream)))
            .expect("a request");
        let mut channel = server.channel().await;
        std::future::poll_fn(|cx| tower::Service::poll_ready(&mut channel, cx))
            .await
            .expect("the server is there");
        let response = tower::Service::call(&mut channel, request).await.expect("an answer");
        let collected = http_body_util::BodyExt::collect(response.into_body()).await.expect("a body");
        let status =
            tonic::Status::from_header_map(collected.trailers().expect("a status")).expect("a status");
        assert_eq!(status.code(), Code::Ok, "cut at {cut}: {status}");
    }
    assert_eq!(server.engine.table("t").expect("the table").info().current_size, 2);
    server.stop().await;
}

#[tokio::test]
async fn a_long_name_is_truncated_in_the_error() {
    let server = TestServer::start([TableConfig::new("t")]).await;
    let table = "x".repeat(1 << 20);
    let status = server.client().await.reset(ResetRequest { table }).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    assert!(status.message().len() < 1_000, "{} bytes", status.message().len());
    server.stop().await;
}

#[tokio::test]
async fn a_silent_connection_does_not_hold_up_the_end() {
    let server = TestServer::start([TableConfig::new("t")]).await;
    let silent = TcpStream::connect(server.address).await.unwrap();
    let mut halting = TcpStream::connect(server.address).await.unwrap();
    halting.write_all(b"PRI").await.unwrap();
    let before = std::time::Instant::now();
    server.stop().await;
    assert!(before.elapsed() < std::time::Duration::from_secs(3), "{:?}", before.elapsed());
    drop((silent, halting));
}

#[tokio::test]
async fn the_first_column_structure_is_kept_and_described() {
    let spec = TensorSpec { name: String::new(), shape: None, dtype: DType::Int64, bounds: None };
    let signed = TableConfig::new("signed").signature(Nest::dict([("x", spec)]));
    let server = TestServer::start([TableConfig::new("t"), signed]).await;
    let mut tools = v1::replay_service_client::ReplayServiceClient::new(server.channel().await);
    // The deepest permitted structure, made of the containers with the most nested messages.
    let named = |inner, _| Nest::NamedTuple { name: "N".into(), fields: vec![("f".into(), inner)] };
    let deep = (0..32).fold(Nest::Leaf(()), named);
    let request = |table: &str, structure: &Nest<()>| v1::NameColumnsRequest {
        table: table.into(),
        structure: Some(structure::to_wire(structure)),
        is_checked: false,
    };
    for (table, columns, kept) in [
        ("t", &deep, true),
        ("t", &Nest::List(vec![Nest::Leaf(()), Nest::Leaf(())]), false),
        ("t", &deep, true),
        ("signed", &deep, false),
        ("signed", &Nest::dict([("x", ())]), true),
    ] {
        let answer = tools.name_columns(request(table, columns)).await.unwrap().into_inner();
        assert_eq!(answer.kept, kept, "{table} {columns:?}");
    }
    let status = tools.describe(v1::DescribeRequest {}).await.unwrap().into_inner();
    let summarize = |name: &str| {
        let table = status.tables.iter().find(|table| table.info.as_ref().unwrap().name == name).unwrap();
        table.columns.as_ref().map(|columns| structure::from_wire(columns).unwrap())
    };
    assert_eq!((summarize("t"), summarize("signed")), (Some(deep), None));
    server.stop().await;
}

#[tokio::test]
async fn invalid_or_too_large_structures_are_refused() {
    let server = TestServer::start([TableConfig::new("t")]).await;
    let mut tools = v1::replay_service_client::ReplayServiceClient::new(server.channel().await);
    let list = |columns| Some(structure::to_wire(&Nest::List(vec![Nest::Leaf(()); columns])));
    let a_float = StructuredValue { kind: Some(Kind::Float64Value(1.0)) };
    for (table, structure, code, why) in [
        ("no", list(1), Code::NotFound, "Priority table no was not found"),
        ("t", None, Code::InvalidArgument, "the structure is missing"),
        ("t", Some(StructuredValue::default()), Code::InvalidArgument, "no columns"),
        ("t", Some(a_float), Code::InvalidArgument, "not a float"),
        ("t", list(4_097), Code::InvalidArgument, "more than 4096 columns"),
        ("t", list(100_000), Code::OutOfRange, "the limit is 262144"),
    ] {
        let request = v1::NameColumnsRequest { table: table.into(), structure, is_checked: false };
        let status = tools.name_columns(request).await.unwrap_err();
        assert_eq!(status.code(), code, "{status}");
        assert!(status.message().contains(why), "{status}");
    }
    assert_eq!(server.engine.table("t").unwrap().columns(), None);
    server.stop().await;
}
