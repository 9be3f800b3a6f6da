//! The server, which is killed and restarted.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use relive_client::{Client, ClientOptions};

use crate::namespace::Namespace;
use relive_benches::Outcome;

/// How long a server may take to start and answer.
const START_LIMIT: Duration = Duration::from_secs(60);

const LOOK_EVERY: Duration = Duration::from_millis(100);

pub(crate) struct Server {
    program: PathBuf,
    folder: PathBuf,
    pub(crate) address: String,
    /// The server's network namespace, if it has its own.
    pub(crate) namespace: Option<Namespace>,
    running: Mutex<Option<Child>>,
}

/// The table, with no rule that removes items: only items that the model has deleted may disappear.
const CONFIG: &str = "[[table]]\nname = 'soak'\nsampler = { prioritized = 0.6 }\nmax_size = 1000000\n";

impl Server {
    pub(crate) async fn start(
        program: &Path,
        folder: &Path,
        namespace: Option<Namespace>,
    ) -> Outcome<Server> {
        std::fs::create_dir_all(folder)?;
        std::fs::write(folder.join("soak.toml"), CONFIG)?;
        // The port is free now, and no other process requests a specific port.
        let free = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let host = namespace.as_ref().map_or("127.0.0.1", |_| Namespace::address());
        let address = format!("{host}:{}", free.port());
        let server = Server {
            program: program.to_owned(),
            folder: folder.to_owned(),
            address,
            namespace,
            running: Mutex::default(),
        };
        server.start_again().await?;
        Ok(server)
    }

    /// Starts the server, and waits until it answers.
    pub(crate) async fn start_again(&self) -> Outcome {
        let (host, port) = self.address.split_once(':').unwrap_or_default();
        let log = File::options().create(true).append(true).open(self.log())?;
        let mut command = match &self.namespace {
            Some(namespace) => namespace.command(&self.program),
            None => Command::new(&self.program),
        };
        let child = command
            .args(["serve", "--bind", host, "--port", port, "--checkpoint-keep", "2", "--config"])
            .arg(self.folder.join("soak.toml"))
            .arg("--checkpoint-dir")
            .arg(self.folder.join("checkpoints"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        *self.running() = Some(child);
        let client = Client::connect_with(&self.address, ClientOptions::default().timeout(START_LIMIT))?;
        tokio::select! {
            answer = client.server_info() => match answer {
                Ok(_) => Ok(()),
                Err(error) => Err(format!("the server does not answer: {error}; its log is {}", self.log().display()).into()),
            },
            ended = self.ended() => Err(ended.into()),
        }
    }

    /// Waits until the server ends without being killed.
    async fn ended(&self) -> String {
        loop {
            if let Some(ended) = self.has_ended() {
                return ended;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Kills the server as `kill -9` does.
    pub(crate) fn kill(&self) {
        if let Some(mut child) = self.running().take() {
            // If the process has already ended, nothing needs to be done.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Returns how the server ended, if it ended without being killed.
    pub(crate) fn has_ended(&self) -> Option<String> {
        let ended = self.running().as_mut()?.try_wait().ok()??;
        Some(format!("the server ended by itself: {ended}; its log is {}", self.log().display()))
    }

    /// Returns the server's current private memory in bytes.
    pub(crate) fn resident_bytes(&self) -> Option<u64> {
        let id = self.running().as_ref()?.id();
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
        line.split_whitespace().next()?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
    }

    /// Returns the lines of the server's log that report a panic.
    pub(crate) fn panics(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.log()).unwrap_or_default();
        log.lines().filter(|line| line.contains("panicked")).map(str::to_owned).collect()
    }

    fn log(&self) -> PathBuf {
        self.folder.join("server.log")
    }

    fn running(&self) -> MutexGuard<'_, Option<Child>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
