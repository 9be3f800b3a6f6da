//! Tests `relive info` and `relive reset` against a server in this process.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::Stdio;

use relive_client::{Client, Nest, SamplerOptions, Tensor};
use relive_server::Engine;
use relive_server::ServerOptions;
use relive_table::{RateLimiterConfig, TableConfig};
use relive_tensor::{DType, TensorSpec};
use serde_json::{Value, json};

use crate::support::{Served, command, free_address, outcome};

/// Starts a server with a queue of 8 items and a table with a signature; returns its address.
async fn start() -> String {
    let spec = TensorSpec::new("", DType::Float32, Some(vec![None, Some(2)]));
    let described = TableConfig::new("described")
        .rate_limiter(RateLimiterConfig::min_size(10).unwrap())
        .signature(Nest::Dict([("x".to_owned(), Nest::Leaf(spec))].into()));
    let engine = Engine::builder().table(TableConfig::queue("queue", 8)).table(described).build().unwrap();
    let listener = relive_server::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let never = std::future::pending();
    tokio::spawn(relive_server::serve(listener, engine, ServerOptions::default(), never));
    address
}

/// Inserts items into the queue.
async fn insert(client: &Client, items: usize) {
    let step = Nest::Leaf(Tensor::from_slice(&[0.5_f32; 100], [100]).unwrap());
    for _ in 0..items {
        client.insert(&step, &[("queue", 1.0)]).await.unwrap();
    }
}

fn report(address: &str) -> Value {
    let (code, stdout, stderr) = outcome(&["info", address, "--json"]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    serde_json::from_str(&stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_servers_act_as_one() {
    let (first, second) = (start().await, start().await);
    let both = format!("{first},{second}");
    insert(&Client::connect(&first).unwrap(), 2).await;
    insert(&Client::connect(&second).unwrap(), 3).await;
    let sizes = |address: &str| report(address)["tables"][1]["size"].clone();
    assert_eq!((sizes(&both), sizes(&first)), (json!(5), json!(2)));
    let (code, stdout, stderr) = outcome(&["table", "set", &both, "queue", "--max-size", "7"]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    assert!(stdout.contains("max_size"), "{stdout}");
    let (code, stdout, stderr) = outcome(&["reset", &both, "queue"]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    assert_eq!(sizes(&both), json!(0));
    let (code, stdout, stderr) = outcome(&["info", &format!("{first},{}", free_address())]);
    assert_eq!(code, Some(3), "{stderr}");
    assert!(stdout.contains("Relive"), "what answers is told: {stdout}");
    assert!(stderr.contains("1 of 2 servers do not answer"), "{stderr}");
    let (code, _, stderr) = outcome(&["info", &format!("{},{}", free_address(), free_address())]);
    assert_eq!(code, Some(3), "{stderr}");
    assert!(stderr.contains("cannot connect to 127.0.0.1:"), "{stderr}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn json_has_every_field() {
    let address = start().await;
    let client = Client::connect(&address).unwrap();
    insert(&client, 5).await;
    client.sample("queue", 3).await.unwrap();
    let report = report(&address);
    assert_eq!(report["address"], json!(address));
    assert_eq!(report["server"]["kind"], "relive");
    assert_eq!(report["server"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(report["server"]["chunk_bytes_decoded"], 800);
    let none = json!({
        "enabled": false, "running": null, "queued": false, "last": null, "last_saved": null, "next_due_s": null,
        "loaded": null
    });
    assert_eq!(report["server"]["checkpoints"], none);
    let described = &report["tables"][0];
    assert_eq!(described["signature"], json!([{"path": "x", "dtype": "float", "shape": [-1, 2]}]));
    assert_eq!(described["limiter"]["min_diff"], Value::Null);
    assert_eq!(described["limiter"]["min_size"], 10);
    let mut queue = report["tables"][1].clone();
    let (bytes, chunks) = (queue["bytes"].take(), queue["chunks"].take());
    assert_eq!((&chunks["count"], &chunks["raw_bytes"]), (&json!(2), &json!(800)));
    assert_eq!((&chunks["encoded_bytes"], &chunks["resident_bytes"]), (&bytes, &bytes));
    assert_eq!((&chunks["shared_bytes"], &chunks["spilled_bytes"]), (&json!(0), &json!(0)));
    let memory = &report["server"]["memory"];
    assert_eq!((&memory["resident_bytes"], &memory["max_bytes"]), (&bytes, &Value::Null));
    assert_eq!((&memory["waiters"], &memory["waiters_not_listed"]), (&json!([]), &json!(0)));
    assert_eq!(memory["spill_error"], Value::Null);
    assert!(memory["process_bytes"].as_u64().unwrap() > 1_000_000, "{memory}");
    assert!(bytes.as_u64().unwrap() > 0, "{bytes}");
    let expected = json!({
        "name": "queue", "size": 2, "max_size": 8, "max_bytes": null, "sampler": "Fifo", "remover": "Fifo",
        "max_times_sampled": 1, "shards": 1, "inserts": 5, "samples": 3, "deletes": 3,
        "inserts_per_s": 0.0, "samples_per_s": 0.0,
        "episodes": 2, "deleted_episodes": 3, "unique_samples": 3,
        "limiter": {"samples_per_insert": 1.0, "min_size": 1, "min_diff": 0.0, "max_diff": 8.0, "cursor": 2.0},
        "signature": null,
        "bytes": null, "chunks": null, "undelivered_samples": 0, "inserts_paused": false, "samples_paused": false, "waiters": [], "waiters_not_listed": 0,
    });
    assert_eq!(queue, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn info_shows_waiters_with_their_reasons() {
    let address = start().await;
    let client = Client::connect(&address).unwrap();
    let _sampler = client.sampler("queue", SamplerOptions::default().max_samples(4)).unwrap();
    while client.status().await.unwrap().tables[1].waiters.is_empty() {
        tokio::task::yield_now().await;
    }
    let waiter = report(&address)["tables"][1]["waiters"][0].take();
    assert_eq!((&waiter["operation"], &waiter["wanted"]), (&json!("sample"), &json!(4)));
    assert_eq!(waiter["missing"], 1);
    assert!(waiter["who"].as_str().unwrap().starts_with("127.0.0.1:"), "{waiter}");
    let (code, text, _) = outcome(&["info", &address]);
    assert_eq!(code, Some(0));
    assert!(text.starts_with(&format!("Relive {} at {address}, up ", env!("CARGO_PKG_VERSION"))), "{text}");
    assert!(text.contains("queue: 0 of 8 items, 0 B"), "{text}");
    assert!(text.contains("limiter: [|-----------------------] 0 in 0..8"), "{text}");
    assert!(text.contains("  waiting: 1\n    sample of 4 by 127.0.0.1:"), "{text}");
    assert!(text.contains("needs 1 more items"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watching_ends_quietly_when_the_reader_closes() {
    let address = start().await;
    let args = ["info", &address, "--json", "--watch", "0.05"];
    let mut child = command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for line in lines.take(3) {
        let report: Value = serde_json::from_str(&line.unwrap()).unwrap();
        assert_eq!(report["tables"][1]["name"], "queue");
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reset_empties_one_table() {
    let address = start().await;
    insert(&Client::connect(&address).unwrap(), 2).await;
    let done = (Some(0), "table queue was reset\n".to_owned(), String::new());
    assert_eq!(outcome(&["reset", &address, "queue"]), done);
    let report = report(&address);
    assert_eq!((&report["tables"][1]["size"], &report["server"]["chunks"]), (&json!(0), &json!(0)));
    let (code, _, stderr) = outcome(&["reset", &address, "nope"]);
    assert_eq!(code, Some(1));
    let expected =
        "relive: error: reset: Priority table nope was not found; this server has: queue, described\n";
    assert_eq!(stderr, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inserts_that_remain_after_a_reset_are_reported() {
    let address = start().await;
    let client = Client::connect(&address).unwrap();
    // Eight inserts fit into the queue, and eight more after the reset; two are still waiting.
    let inserts = (0..18).map(|_| {
        let client = client.clone();
        tokio::spawn(async move { insert(&client, 1).await })
    });
    let inserts = inserts.collect::<Vec<_>>();
    while client.status().await.unwrap().tables[1].waiters.len() < 10 {
        tokio::task::yield_now().await;
    }
    let (code, stdout, stderr) = outcome(&["reset", &address, "queue"]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert_eq!(stdout, "table queue was reset; 2 waiting inserts remain\n");
    inserts.iter().for_each(tokio::task::JoinHandle::abort);
}

#[test]
fn a_server_that_stops_while_watched_is_reported() {
    let mut served = Served::start(".toml", "[[table]]\nname = 't'\n");
    let args = ["info", &served.address, "--json", "--watch", "0.05", "--timeout", "0.3"];
    let mut child = command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut first).unwrap();
    served.child.kill().unwrap();
    served.child.wait().unwrap();
    stdout.read_to_end(&mut Vec::new()).unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    let begin = format!("relive: error: lost the server at {}: ", served.address);
    assert!(stderr.starts_with(&begin), "{stderr}");
}

#[test]
fn a_server_of_another_kind_is_reported() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in other.incoming() {
            let mut stream = stream.unwrap();
            // Reads everything, because unread bytes would make the system reset the connection, and the answer could
            // be lost.
            std::thread::spawn(move || {
                let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
                let _ = stream.shutdown(std::net::Shutdown::Write);
                std::io::copy(&mut stream, &mut std::io::sink())
            });
        }
    });
    for args in [&["info", &address][..], &["reset", &address, "t"], &["bench", &address, "insert"]] {
        let (code, _, stderr) = outcome(args);
        let expected = format!(
            "relive: error: a process listens at {address}, but it does not speak Relive's protocol; check the \
             address; a server with TLS requires https:// or --tls-ca\n"
        );
        assert_eq!((code, stderr), (Some(3), expected));
    }
}

#[test]
fn a_refused_connection_is_reported_at_once() {
    let address = free_address();
    let (code, _, stderr) = outcome(&["info", &address]);
    assert_eq!(code, Some(3));
    let expected = format!(
        "relive: error: cannot connect to {address}: Connection refused (os error 111); check the address and that the server is running\n"
    );
    assert_eq!(stderr, expected);
}

#[test]
fn a_silent_server_times_out() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let (code, _, stderr) = outcome(&["info", &address, "--timeout", "0.2"]);
    assert_eq!(code, Some(4));
    assert!(stderr.starts_with("relive: error: status: Deadline Exceeded after 200ms"), "{stderr}");
}
