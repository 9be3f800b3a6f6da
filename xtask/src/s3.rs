//! A local S3 server for tests.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::python;

/// `interop/s3/server.py`, which ends when this value is dropped.
pub(crate) struct Server {
    process: Child,
    environment: BTreeMap<String, String>,
}

impl Server {
    /// Starts a server on its own port, and waits until it is ready.
    pub(crate) fn start(root: &Path) -> Result<Self> {
        let mut command = Command::new(python::S3.python(root)?);
        command.arg(root.join("interop/s3/server.py")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().context("could not start the S3 server")?;
        let output = process.stdout.take().context("the S3 server has no output")?;
        let mut server = Self { process, environment: BTreeMap::new() };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        ensure!(!line.is_empty(), "the S3 server ended before it served");
        server.environment = serde_json::from_str(&line).context("the S3 server said something else")?;
        Ok(server)
    }

    /// Returns the environment variables for users of the server: variables with the usual names, and `RELIVE_TEST_S3`,
    /// the URL of a bucket.
    pub(crate) fn environment(&self) -> &BTreeMap<String, String> {
        &self.environment
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server ends at the end of its input.
        drop(self.process.stdin.take());
        // If waiting for the process fails, the process has ended.
        let _ = self.process.wait();
    }
}
