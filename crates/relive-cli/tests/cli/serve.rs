//! `relive serve`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use relive_client::blocking::Client;

use crate::support::{Served, command, file, outcome, signal};

const TOML: &str = "[[table]]\nname = 'replay'\n";
const TEXTPROTO: &str = "tables {
  table_name: 'replay' sampler { uniform: true } remover { fifo: true } max_size: 10
  rate_limiter { samples_per_insert: 1 min_size_to_sample: 1 min_diff: -10 max_diff: 10 }
}";

#[test]
fn sigterm_and_sigint_end_a_server_successfully() {
    for (suffix, config, name) in
        [(".toml", TOML, "TERM"), (".textproto", TEXTPROTO, "INT"), ("", TEXTPROTO, "TERM")]
    {
        let mut served = Served::start(suffix, config);
        TcpStream::connect(&served.address).unwrap();
        signal(&served.child, name);
        let (status, rest) = served.end();
        assert_eq!((status.code(), rest.as_str()), (Some(0), ""), "{name}");
    }
}

#[test]
fn a_second_signal_ends_a_server_at_once() {
    let mut served = Served::start(".toml", TOML);
    // A client that opens a connection and then sends nothing keeps the server waiting for the end of the connection.
    let mut silent = TcpStream::connect(&served.address).unwrap();
    let empty_settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    silent.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    silent.write_all(&empty_settings).unwrap();
    silent.read_exact(&mut [0; 9]).unwrap();
    let mut log = BufReader::new(served.child.stderr.take().unwrap()).lines();
    signal(&served.child, "TERM");
    let stopping = log.by_ref().map(Result::unwrap).any(|line| line.contains("send the signal again"));
    assert!(stopping);
    signal(&served.child, "TERM");
    let (status, _) = served.end();
    assert_eq!(status.code(), Some(143));
}

#[test]
fn a_server_does_not_wait_for_the_reader_of_its_log() {
    for format in ["text", "json"] {
        let more = ["--log-level", "trace", "--log-format", format];
        let mut served = Served::start_with(".toml", TOML, &more);
        let client = Client::connect(&served.address).unwrap();
        // Together, these calls log more than a pipe takes.
        (0..500).for_each(|_| drop(client.server_info().unwrap()));
        let log = BufReader::new(served.child.stderr.take().unwrap()).lines();
        let is_told = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_told.load(Ordering::Relaxed) {
                    client.server_info().unwrap();
                }
            });
            let mut log = log.map(Result::unwrap).take(1_000_000);
            let note = log.find(|line| line.contains(" lines of the log were lost here"));
            is_told.store(true, Ordering::Relaxed);
            assert_eq!(note.unwrap().starts_with('{'), format == "json");
        });
    }
}

#[test]
fn a_port_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let config = file(".toml", TOML);
    let port = address.port().to_string();
    let (code, stdout, stderr) = outcome(&["serve", "--config", config.to_str().unwrap(), "--port", &port]);
    assert_eq!((code, stdout.as_str()), (Some(5), ""));
    let begin = format!("relive: error: cannot listen on {address}: ");
    assert!(stderr.starts_with(&begin), "{stderr}");
    assert!(stderr.trim_end().ends_with("stop it, or choose another port (0 picks a free one)"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1);
}

#[test]
fn a_bad_configuration_is_reported_in_one_line() {
    let bad = file(".toml", "[[table]]\nname = 'a'\nmax_size = 'x'\n");
    let bad = bad.to_str().unwrap();
    let expected = format!(
        "relive: error: {bad}:3: table[0].max_size: invalid type: string \"x\", expected a whole number of at least 0\n"
    );
    assert_eq!(outcome(&["serve", "--config", bad]), (Some(2), String::new(), expected));
}

#[test]
fn memory_bounds_of_the_command_line_override_the_configuration() {
    let config = format!("max_bytes = '3MB'\nmax_bytes_wait = 5\n{TOML}max_bytes = '1KiB'\n");
    let memory = |served: &Served| {
        let (code, stdout, stderr) = outcome(&["info", &served.address, "--json"]);
        assert_eq!((code, stderr.as_str()), (Some(0), ""));
        let report: serde_json::Value = serde_json::from_str(&stdout).unwrap();
        (report["server"]["memory"]["max_bytes"].clone(), report["tables"][0]["max_bytes"].clone())
    };
    let served = Served::start(".toml", &config);
    assert_eq!(memory(&served), (3_000_000.into(), 1_024.into()));
    let (_, text, _) = outcome(&["info", &served.address]);
    assert!(text.contains("memory: 0 B of chunks, at most 2.86 MiB; the process has "), "{text}");
    assert!(text.contains("items, 0 B of 1.00 KiB"), "{text}");
    let served = Served::start_with(".toml", &config, &["--max-bytes", "1GiB", "--max-bytes-wait", "0.5"]);
    assert_eq!(memory(&served), ((1_u64 << 30).into(), 1_024.into()));
}

#[test]
fn bad_memory_bounds_are_reported_in_one_line() {
    let config = file(".toml", TOML);
    for (option, value, expected) in [
        (
            "--max-bytes",
            "8G",
            "\"8G\" is not a number of bytes from 1 to 1 EiB; write 2000000000, 2GB or 1.5GiB",
        ),
        ("--max-bytes", "0", "\"0\" is not a number of bytes"),
        ("--max-bytes-wait", "-1", "number of seconds above 0"),
    ] {
        let argument = format!("{option}={value}");
        let (code, stdout, stderr) = outcome(&["serve", "--config", config.to_str().unwrap(), &argument]);
        assert_eq!((code, stdout.as_str(), stderr.lines().count()), (Some(2), "", 1), "{stderr}");
        assert!(stderr.contains(option) && stderr.contains(expected), "{stderr}");
    }
}

#[test]
fn a_missing_configuration_is_named() {
    let (code, stdout, stderr) = outcome(&["serve", "--config", "no/such.toml"]);
    let expected =
        "relive: error: cannot read the configuration no/such.toml: No such file or directory (os error 2)\n";
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (Some(2), "", expected));
}

#[test]
fn a_server_survives_a_closed_output_pipe() {
    let config = file(".toml", TOML);
    let args = ["serve", "--port", "0", "--config", config.to_str().unwrap()];
    let mut child = command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(log.any(|line| line.contains("listening")));
    signal(&child, "TERM");
    assert_eq!(log.find(|line| line.contains("panic")), None);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_limiter_that_may_deadlock_causes_a_warning() {
    let limiter = "rate_limiter = { samples_per_insert = 2, min_size = 10, min_diff = 0, max_diff = 5 }";
    let mut served = Served::start(".toml", &format!("{TOML}{limiter}\n[[table]]\nname = 'fine'\n"));
    signal(&served.child, "TERM");
    let log = BufReader::new(served.child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let warnings = log.filter(|line| line.contains("may deadlock")).collect::<Vec<_>>();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    for part in ["WARN", "replay", "max_diff 5 is below 20", "samples_per_insert 2 times min_size 10"] {
        assert!(warnings[0].contains(part), "{part} in {warnings:?}");
    }
}

#[test]
fn the_example_is_a_configuration() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/replay.toml");
    let mut served = Served::start(".toml", &std::fs::read_to_string(example).unwrap());
    signal(&served.child, "TERM");
    assert_eq!(served.end().0.code(), Some(0));
}

#[test]
fn a_signal_before_there_is_a_server_ends_the_process_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.toml");
    assert!(Command::new("mkfifo").arg(&config).status().unwrap().success());
    let mut child = command(&["serve", "--port", "0", "--config", config.to_str().unwrap()]).spawn().unwrap();
    // This returns once the program has opened the pipe, which then waits for data.
    let _writer = std::fs::File::create(&config).unwrap();
    signal(&child, "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(143));
}
