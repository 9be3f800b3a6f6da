//! Tests against a real S3 server, over HTTP.

use std::io::{BufRead, BufReader, ErrorKind, IoSlice};
use std::process::{Command, Stdio};
use std::sync::Arc;

use crate::ErrorKind as Kind;
use crate::storage::bucket::faults::QUICK;
use crate::storage::bucket::real::Server;
use crate::storage::conformance::{self, content, names, read, write};
use crate::storage::{Storage, open};

const LARGE: usize = 20 << 20;

#[test]
fn a_real_server_conforms() {
    let Some(server) = Server::of_this_run() else { return };
    conformance::check(&|name| Arc::new(server.at(&format!("conforms/{name}"), QUICK)));
}

#[test]
fn environment_variables_suffice_to_open_a_bucket() {
    let Some(server) = Server::of_this_run() else { return };
    let url = server.at("environment", QUICK).describe("");
    let storage = open(&url).unwrap();
    write(storage.as_ref(), "segments/a", b"1");
    assert_eq!(read(storage.as_ref(), "segments/a"), b"1");
    assert_eq!(storage.describe("segments/a"), format!("{url}/segments/a"));
}

#[test]
fn temporary_server_errors_are_retried() {
    let Some(server) = Server::of_this_run() else { return };
    let storage = server.at("while", QUICK);
    for (status, method) in [(503, "PUT"), (500, "PUT"), (500, "POST"), (503, "GET"), (429, "HEAD")] {
        server.fail("while", method, status, 3);
    }
    for length in [100, LARGE] {
        let (name, bytes) = (format!("{length}"), content(length, 1));
        write(&storage, &name, &bytes);
        assert!(read(&storage, &name) == bytes);
    }
    assert_eq!(names(&storage, "").len(), 2);
}

#[test]
fn persistent_server_errors_end_the_retries() {
    let Some(server) = Server::of_this_run() else { return };
    let storage = server.at("given-up", QUICK);
    server.fail("given-up", "PUT", 503, 100);
    let bytes = content(LARGE, 1);
    let mut upload = storage.create("x").unwrap();
    let error = upload.write(&mut [IoSlice::new(&bytes)]).and_then(|()| upload.finish()).unwrap_err();
    assert_eq!(error.to_string(), "SlowDown: Made to fail (after 8 retries)");
    assert_eq!(names(&storage, ""), Vec::<String>::new());
}

#[test]
fn wrong_credentials_are_reported() {
    let Some(server) = Server::of_this_run() else { return };
    let url = server.at("credentials", QUICK).describe("");
    let cases = [
        ("SignatureDoesNotMatch", server.with(&url, QUICK, |client| client.with_secret_access_key("wrong"))),
        ("InvalidAccessKeyId", server.with(&url, QUICK, |client| client.with_access_key_id("AKIANOBODY"))),
    ];
    for (code, storage) in cases {
        let error = storage.lock().map(drop).unwrap_err();
        let text = error.to_string();
        assert_eq!(error.kind(), Kind::Io);
        assert!(text.starts_with(&format!("cannot write {url}/relive.lock: {code}: ")), "{text}");
        assert!(text.contains("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"), "{text}");
        assert_eq!(storage.list("").unwrap_err().kind(), ErrorKind::PermissionDenied);
    }
}

#[test]
fn a_missing_bucket_is_named() {
    let Some(server) = Server::of_this_run() else { return };
    let storage = server.with("s3://relive-nowhere/a", QUICK, |client| client);
    let expected = "cannot write s3://relive-nowhere/a/relive.lock: NoSuchBucket: The specified bucket does \
                    not exist; there is no bucket `relive-nowhere`: create it first, or fix the URL";
    assert_eq!(storage.lock().map(drop).unwrap_err().to_string(), expected);
    let error = storage.list("").unwrap_err().to_string();
    assert!(error.contains("there is no bucket `relive-nowhere`"), "{error}");
}

/// Set for the process that the test kills: the place where it writes.
const VICTIM: &str = "RELIVE_TEST_VICTIM";

/// This is not itself a test. It runs in the process that is killed, and writes parts of a file until then.
#[test]
fn victim() {
    let Ok(place) = std::env::var(VICTIM) else { return };
    let storage = Server::of_this_run().unwrap().at(&place, QUICK);
    let _lock = storage.lock().unwrap();
    let mut upload = storage.create("x").unwrap();
    for round in 0.. {
        upload.write(&mut [IoSlice::new(&content(LARGE, round))]).unwrap();
        println!("written");
    }
}

#[test]
fn an_upload_killed_midway_leaves_nothing_visible() {
    let Some(server) = Server::of_this_run() else { return };
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "--nocapture", "storage::bucket::tests::s3::victim"]);
    let mut victim = command.env(VICTIM, "killed").stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    lines.map(Result::unwrap).find(|line| line.contains("written")).unwrap();
    victim.kill().unwrap();
    victim.wait().unwrap();
    let storage = server.at("killed", QUICK);
    assert_eq!(names(&storage, ""), ["relive.lock"]);
    // The lock was not released, so it has to expire.
    let _lock = storage.lock().unwrap();
    write(&storage, "x", b"1");
    assert_eq!(read(&storage, "x"), b"1");
}
