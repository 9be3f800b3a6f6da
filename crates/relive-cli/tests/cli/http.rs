//! Tests `relive serve --http`: metrics, health, and the dashboard's files and events.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Served, command, file, outcome};

const TOML: &str = "[[table]]\nname = 'replay'\nmax_size = 50\n";

/// This is longer than any operation in these tests takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Returns a server that discards further log lines, and the address of its dashboard.
fn serve(config: &str, more: &[&str]) -> (Served, String) {
    with_http(Served::start_with(".toml", config, more))
}

/// Like `serve`, with all arguments of the command.
pub(crate) fn serve_with_http(args: &[&str]) -> (Served, String) {
    with_http(Served::spawn(&mut command(args)))
}

fn with_http(mut served: Served) -> (Served, String) {
    let log = BufReader::new(served.child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let shown =
        log.filter_map(|line| Some(line.split_once("dashboard at http://")?.1.split_once('/')?.0.to_owned()));
    let address = shown.take(1).last().unwrap();
    (served, address)
}

fn ask(address: &str, path: &str) -> TcpStream {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(socket, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    socket
}

/// Returns the head and the body of an HTTP response.
pub(crate) fn get(address: &str, path: &str) -> (String, String) {
    let mut text = String::new();
    ask(address, path).read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.to_lowercase(), body.to_owned())
}

/// Waits until the server serves its tables. It prints its address before that.
fn until_ready(http: &str) {
    let asked = Instant::now();
    let not_yet = |(head, body): &(String, String)| head.starts_with("http/1.1 503") && body == "starting\n";
    let (head, body) = std::iter::repeat_with(|| get(http, "/readyz"))
        .find(|answer| !not_yet(answer) || asked.elapsed() > PATIENCE)
        .unwrap();
    assert!(head.starts_with("http/1.1 200") && body == "serving\n", "{head}");
}

#[test]
fn metrics_and_health_are_served() {
    let (served, http) = serve(TOML, &["--http", "127.0.0.1:0"]);
    assert_eq!(get(&http, "/healthz").1, "ok\n");
    until_ready(&http);
    let (code, ..) = outcome(&["bench", &served.address, "insert", "--seconds", "0.2", "--clients", "1"]);
    assert_eq!(code, Some(0));
    let (head, metrics) = get(&http, "/metrics");
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    let value = |name: &str| -> f64 {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)).expect(name);
        line.trim().parse().unwrap()
    };
    assert_eq!(value("relive_table_items{table=\"replay\"}"), 50.0);
    assert!(value("relive_inserts_total{table=\"replay\"}") >= 50.0);
    assert!(value("process_cpu_seconds_total") > 0.0 && value("relive_chunk_encoded_bytes") > 0.0);
}

#[test]
fn the_dashboard_serves_only_its_own_files() {
    let (_served, http) = serve(&format!("http = '127.0.0.1:0'\n{TOML}"), &[]);
    let (head, page) = get(&http, "/");
    assert!(head.contains("content-security-policy: default-src 'none'"), "{head}");
    let mut files: Vec<String> = vec!["/dashboard.js".to_owned(), "/dashboard.css".to_owned()];
    files.iter().for_each(|name| assert!(page.contains(name), "{name}"));
    while let Some(name) = files.pop() {
        let (head, body) = get(&http, &name);
        assert!(head.starts_with("http/1.1 200"), "{name}: {head}");
        let imports = body.lines().filter_map(|line| line.strip_prefix("import ")?.split('"').nth(1));
        files.extend(imports.map(str::to_owned));
        assert!(!body.contains("https://"), "{name} needs something from elsewhere");
    }
    until_ready(&http);
    assert!(get(&http, "/etc/passwd").0.starts_with("http/1.1 404"));
    assert!(get(&http, "/nothing.js").0.starts_with("http/1.1 404"));
    assert!(get(&http, "/histograms?table=none").0.starts_with("http/1.1 404"));
    let histograms: Value = serde_json::from_str(&get(&http, "/histograms?table=replay").1).unwrap();
    assert_eq!((&histograms["items"], &histograms["priority"]), (&0.into(), &Value::Null));
}

#[test]
fn events_report_history_and_current_state() {
    let (served, http) = serve(TOML, &["--http", "127.0.0.1:0"]);
    let (code, ..) = outcome(&["table", "pause", &served.address, "replay", "--samples"]);
    assert_eq!(code, Some(0));
    let lines = BufReader::new(ask(&http, "/events")).lines().map(Result::unwrap);
    let data: Vec<Value> =
        lines.filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).take(3).collect();
    assert!(data[0]["at"].is_array() && data[0]["tables"].is_object(), "{data:?}");
    let table = &data[2]["server"]["tables"][0];
    assert_eq!((&table["name"], &table["samples_paused"]), (&"replay".into(), &true.into()));
    assert_eq!(data[2]["server"]["changes"][0]["new"], "paused");
    assert!(data[2]["at"].as_f64() > data[1]["at"].as_f64());
}

#[test]
fn an_invalid_address_is_reported_in_one_line() {
    let config = file(".toml", TOML);
    let (code, _, stderr) = outcome(&["serve", "--config", config.to_str().unwrap(), "--http", "9090"]);
    assert_eq!((code, stderr.lines().count()), (Some(2), 1), "{stderr}");
    assert!(stderr.contains("is not an IP address and a port; write it as in 127.0.0.1:9090"), "{stderr}");
}

#[test]
fn a_json_log_has_one_object_per_line() {
    let mut served = Served::start_with(".toml", TOML, &["--log-format", "json"]);
    let mut line = String::new();
    BufReader::new(served.child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let record: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&record["level"], &record["fields"]["tables"]), (&"INFO".into(), &"replay".into()));
}
