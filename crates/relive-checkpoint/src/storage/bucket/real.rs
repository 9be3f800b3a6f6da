//! The S3 server of a test run.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use object_store::aws::AmazonS3Builder;

use super::location::Location;
use super::tuning::Tuning;
use crate::storage::BucketStorage;

/// A server that `cargo xtask test` has started and announced through the usual environment variables.
pub(crate) struct Server {
    bucket: String,
}

impl Server {
    /// `None` in test runs without a server, in which these tests are skipped.
    pub(crate) fn of_this_run() -> Option<Self> {
        let bucket = std::env::var("RELIVE_TEST_S3").ok();
        if bucket.is_none() {
            println!("skipped: there is no S3 server; `cargo xtask test` starts one");
        }
        bucket.map(|bucket| Self { bucket })
    }

    /// Returns a place in the server's bucket.
    pub(crate) fn at(&self, place: &str, tuning: Tuning) -> BucketStorage {
        self.with(&format!("{}/{place}", self.bucket), tuning, |client| client)
    }

    /// Returns a place with any URL, which is accessed by a client that ignores the environment variables.
    pub(crate) fn with(
        &self,
        url: &str,
        tuning: Tuning,
        change: impl FnOnce(AmazonS3Builder) -> AmazonS3Builder,
    ) -> BucketStorage {
        let location = Location::parse(url).unwrap().unwrap();
        let client = location.s3(change(AmazonS3Builder::from_env())).unwrap();
        BucketStorage::on(Arc::clone(&client), location, tuning).unwrap()
    }

    /// Makes the next requests of a kind fail.
    pub(crate) fn fail(&self, place: &str, method: &str, status: u16, times: usize) {
        let bucket = self.bucket.trim_start_matches("s3://");
        let path = format!("/{bucket}/{place}");
        let fault = serde_json::json!({"path": path, "method": method, "status": status, "times": times});
        let body = fault.to_string();
        let endpoint = std::env::var("AWS_ENDPOINT_URL").unwrap();
        let host = endpoint.trim_start_matches("http://");
        let mut stream = TcpStream::connect(host).unwrap();
        let length = body.len();
        write!(
            stream,
            "POST /-/faults HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    }
}
