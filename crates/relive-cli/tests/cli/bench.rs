//! `relive bench`.

use serde_json::Value;

use crate::support::{Served, outcome};

const TABLES: &str = "
[[table]]
name = 'replay'
[[table]]
name = 'queue'
kind = 'queue'
max_size = 100
[[table]]
name = 'described'
signature = { dtype = 'float32' }
";

fn bench(address: &str, args: &str) -> (Option<i32>, String, String) {
    let line = format!("bench {address} {args}");
    outcome(&line.split(' ').collect::<Vec<_>>())
}

fn measure(address: &str, args: &str) -> Value {
    let (code, stdout, stderr) = bench(address, &format!("{args} --seconds 0.5 --clients 2 --json"));
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert_eq!(stdout.lines().count(), 1);
    serde_json::from_str(&stdout).unwrap()
}

fn assert_worked(result: &Value, load: &str, item_bytes: f64) {
    let figures = &result[load];
    let number = |field: &str| figures[field].as_f64().unwrap_or_else(|| panic!("{field} in {result}"));
    let (items, per_s) = (number("items"), number("items_per_s"));
    assert!(items > 0.0 && (per_s - items / 0.5).abs() < 0.01, "{result}");
    assert!((number("MB_per_s") - per_s * item_bytes / 1e6).abs() < 0.01, "{result}");
    let latency = ["latency_p50_ms", "latency_p99_ms", "latency_max_ms"].map(number);
    assert!(latency[0] > 0.0 && latency.is_sorted(), "{result}");
    assert!((0.0..=1.0).contains(&number("slowest_client")), "{result}");
    assert_eq!((&figures["errors"], &result["errors"]), (&Value::from(0), &Value::from(0)));
}

#[test]
fn inserts_then_samples_are_measured() {
    let served = Served::start(".toml", TABLES);
    let inserted = measure(&served.address, "insert --table replay --bytes 1000 --batch 20");
    assert_worked(&inserted, "insert", 1000.0);
    assert_eq!(inserted["sample"], Value::Null);
    let sampled = measure(&served.address, "sample --table replay --batch 20");
    assert_worked(&sampled, "sample", 1000.0);
    assert_eq!((&sampled["load"], &sampled["table"]), (&Value::from("sample"), &Value::from("replay")));
}

#[test]
fn every_transport_to_a_local_server() {
    let served = Served::start(".toml", TABLES);
    for (choice, way) in [("auto", "shm"), ("shm", "shm"), ("unix", "unix"), ("tcp", "tcp")] {
        let result =
            measure(&served.address, &format!("mixed --table queue --bytes 50 --transport {choice}"));
        assert_worked(&result, "insert", 50.0);
        assert_worked(&result, "sample", 50.0);
        assert_eq!(result["transport"], Value::from(way));
    }
}

#[test]
fn a_queue_is_written_and_read_concurrently() {
    let served = Served::start(".toml", TABLES);
    let result = measure(&served.address, "mixed --table queue --bytes 50 --batch 10");
    assert_worked(&result, "insert", 50.0);
    assert_worked(&result, "sample", 50.0);
}

#[test]
fn people_get_a_summary_on_stderr_and_json_on_stdout() {
    let served = Served::start(".toml", TABLES);
    let (code, stdout, stderr) =
        bench(&served.address, "sample --table replay --fill 10 --seconds 0.3 --batch 5");
    assert_eq!(code, Some(0));
    let result: Value = serde_json::from_str(&stdout).unwrap();
    assert!(result["sample"]["items"].as_u64() > Some(0), "{result}");
    assert!(stderr.starts_with("sample: ") && stderr.contains("batch p50"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "no progress bar without a terminal");
}

#[test]
fn invalid_benchmarks_are_reported() {
    let served = Served::start(".toml", TABLES);
    for (args, code, expected) in [
        ("insert", 2, "the server has several tables; choose one with --table: described, queue, replay"),
        ("insert --table x", 2, "the server has no table \"x\"; it has: described, queue, replay"),
        (
            "insert --table described",
            2,
            "table \"described\" has a signature, which the random items of the benchmark do not fit; use a table without a signature",
        ),
        (
            "sample --table replay --seconds 0.2 --json",
            4,
            "no batch of samples completed within 200ms: needs 1 more items in the table (has 0, \
             min_size_to_sample is 1); try --fill or mixed",
        ),
        (
            "insert --table queue --batch 200 --seconds 0.2 --json",
            4,
            "no flush completed within 200ms: needs 1 more samples (cursor 100.0, max_diff is \
             100.0); try mixed, a smaller --batch or a longer --seconds",
        ),
    ] {
        let (actual, _, stderr) = bench(&served.address, args);
        assert_eq!((actual, stderr), (Some(code), format!("relive: error: {expected}\n")), "{args}");
    }
}

#[test]
fn inserts_waiting_for_memory_report_it() {
    let served = Served::start(".toml", "max_bytes = '100kB'\n[[table]]\nname = 'replay'\n");
    let (code, _, stderr) = bench(&served.address, "insert --bytes 40000 --batch 200 --seconds 0.5 --json");
    assert_eq!(code, Some(4), "{stderr}");
    let begin = "relive: error: no flush completed within 500ms: server memory: chunks take ";
    let end = ", max_bytes is 100.0 kB; remove items, or raise the server's --max-bytes\n";
    assert!(stderr.starts_with(begin) && stderr.ends_with(end), "{stderr}");
}

#[test]
fn a_lost_server_is_reported_at_the_end_of_the_benchmark() {
    let mut served = Served::start(".toml", TABLES);
    let address = served.address.clone();
    let running =
        std::thread::spawn(move || bench(&address, "insert --table replay --seconds 3 --timeout 1"));
    // The bench has started once the table has items.
    let info = || outcome(&["info", &served.address, "--json"]).1;
    while !serde_json::from_str::<Value>(&info()).unwrap()["tables"]
        .as_array()
        .unwrap()
        .iter()
        .any(|table| table["inserts"].as_u64() > Some(0))
    {}
    served.child.kill().unwrap();
    let (code, _, stderr) = running.join().unwrap();
    assert_eq!(code, Some(3), "{stderr}");
    assert!(stderr.contains("lost the server at"), "{stderr}");
}
