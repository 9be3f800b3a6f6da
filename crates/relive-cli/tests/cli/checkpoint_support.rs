//! Servers with checkpoints.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use relive_client::blocking::Client;
use relive_client::{Nest, Tensor};

use crate::support::{Served, file, signal};

pub(crate) const TOML: &str = "[[table]]\nname = 'replay'\nsampler = 'fifo'\nmax_size = 10\n";

/// Returns the path of a folder that does not exist yet.
pub(crate) fn folder(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("checkpoints-{name}"));
    // Some tests leave a file at this path.
    let _ = std::fs::remove_dir_all(&path).or_else(|_| std::fs::remove_file(&path));
    path
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("our folders have plain names")
}

/// Returns arguments of a server that cannot start.
pub(crate) fn args(config: &str, root: &Path, more: &[&str]) -> Vec<String> {
    let config = file(".toml", config);
    let fixed = ["serve", "--port", "0", "--config", text(&config), "--checkpoint-dir", text(root)];
    fixed.iter().chain(more).map(ToString::to_string).collect()
}

pub(crate) fn start(config: &str, root: &Path, more: &[&str]) -> Served {
    Served::start_with(".toml", config, &[&["--checkpoint-dir", text(root)], more].concat())
}

pub(crate) fn stop(mut served: Served) {
    signal(&served.child, "TERM");
    assert_eq!(served.end().0.code(), Some(0));
}

/// Ends a server and returns its log.
pub(crate) fn log_of(mut served: Served) -> Vec<String> {
    signal(&served.child, "TERM");
    let stderr = served.child.stderr.take().expect("it is piped");
    let log = BufReader::new(stderr).lines().map(|line| line.expect("logs are text")).collect();
    assert_eq!(served.end().0.code(), Some(0), "{log:?}");
    log
}

pub(crate) fn write(served: &Served, values: &[f32]) -> Client {
    let client = Client::connect(&served.address).expect("the address is valid");
    for value in values {
        let step = Nest::List(vec![Nest::Leaf(Tensor::scalar(*value))]);
        client.insert(&step, &[("replay", 1.0)]).expect("the server takes items");
    }
    client
}

/// Fills a server and makes it write a checkpoint now, but not when it stops. Returns the checkpoint's path.
pub(crate) fn checkpoint(root: &Path, values: &[f32], more: &[&str]) -> PathBuf {
    let served = start(TOML, root, &[&["--no-checkpoint-at-shutdown"], more].concat());
    let path = write(&served, values).checkpoint().expect("the folder can be written");
    stop(served);
    path.into()
}

/// Returns the first item in the order of the table's sampler.
pub(crate) fn first(served: &Served) -> f32 {
    let client = Client::connect(&served.address).unwrap();
    let samples = client.sample("replay", 1).unwrap();
    samples[0].columns().unwrap()[0].as_slice::<f32>().unwrap()[0]
}
