//! Tests `relive` with checkpoints in a bucket of a local S3 server, which `cargo xtask test` starts. Without this
//! server, the tests are skipped.

use std::time::{SystemTime, UNIX_EPOCH};

use relive_client::blocking::Client;
use serde_json::Value;

use crate::checkpoint_support::{TOML, folder, stop, text, write};
use crate::support::{Served, file, outcome};

/// Returns a place in the bucket that no other test uses.
fn place() -> Option<String> {
    let Ok(bucket) = std::env::var("RELIVE_TEST_S3") else {
        println!("skipped: there is no S3 server; `cargo xtask test` starts one");
        return None;
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Some(format!("{bucket}/cli/{}-{}", std::process::id(), now.as_nanos()))
}

/// Returns the output of a command, which must succeed.
fn good(args: &[&str]) -> String {
    let (code, stdout, stderr) = outcome(&[&["checkpoint"], args].concat());
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{args:?}");
    stdout
}

fn serve(url: &str) -> Served {
    Served::start_with(".toml", TOML, &["--checkpoint-dir", url])
}

fn size(served: &Served) -> u64 {
    Client::connect(&served.address).unwrap().server_info().unwrap().table("replay").unwrap().current_size
}

#[test]
fn servers_and_tools_accept_a_bucket_url() {
    let Some(url) = place() else { return };
    let served = serve(&url);
    let first = write(&served, &[1.0, 2.0]).checkpoint().unwrap();
    assert_eq!(first, format!("{url}/checkpoint-0000000001.relive"));
    let config = file(".toml", TOML);
    let second = ["serve", "--port", "0", "--config", text(&config), "--checkpoint-dir", &url];
    let (code, _, stderr) = outcome(&second);
    assert!(code == Some(1) && stderr.contains("writes its checkpoints here"), "{stderr}");
    write(&served, &[3.0]);
    stop(served);

    let listed: Value = serde_json::from_str(&good(&["ls", &url, "--json"])).unwrap();
    let listed: Vec<_> =
        listed["checkpoints"].as_array().unwrap().iter().map(|one| one["items"].as_u64()).collect();
    assert_eq!(listed, [Some(2), Some(3)], "the second was written at the end");
    let verified = good(&["verify", &url]);
    assert_eq!(verified.lines().filter(|line| line.contains(": whole; ")).count(), 2, "{verified}");
    assert!(good(&["inspect", &first]).contains("replay: 2 of 10 items"));

    let theirs = folder("bucket-as-reverb");
    assert!(good(&["convert", &url, text(&theirs), "--format", "reverb"]).contains(": 3 items, "));
    let copy = format!("{url}/copy");
    let actual = good(&["convert", text(&theirs), &copy, "--format", "relive"]);
    assert!(actual.contains(&format!(" to {copy}/checkpoint-0000000001.relive: 3 items, ")), "{actual}");
    assert!(good(&["prune", &url, "--keep", "1"]).contains("1 checkpoint removed"));

    for url in [&url, &copy] {
        let served = serve(url);
        assert_eq!(size(&served), 3);
        stop(served);
    }
}

#[test]
fn a_missing_bucket_is_named() {
    if place().is_none() {
        return;
    }
    let nowhere = "s3://relive-nowhere/run";
    let config = file(".toml", TOML);
    let serve = ["serve", "--port", "0", "--config", text(&config), "--checkpoint-dir", nowhere];
    for args in [&serve[..], &["checkpoint", "ls", nowhere]] {
        let (code, _, stderr) = outcome(args);
        assert!(code.is_some_and(|code| code > 0), "{args:?}");
        assert!(stderr.contains("there is no bucket `relive-nowhere`"), "{stderr}");
    }
}
