//! `relive serve --checkpoint-dir`.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use relive_client::blocking::Client;
use relive_client::{Nest, Tensor};

use crate::support::{Served, file, outcome, signal};

const TOML: &str = "[[table]]\nname = 'replay'\nsampler = 'fifo'\nmax_size = 10\n";

/// A folder that is not there yet.
fn folder(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("checkpoints-{name}"));
    let _ = std::fs::remove_dir_all(&path);
    path
}

fn start(config: &str, root: &Path, more: &[&str]) -> Served {
    let root = root.to_str().expect("our folders have plain names");
    Served::start_with(".toml", config, &[&["--checkpoint-dir", root], more].concat())
}

fn stop(mut served: Served) {
    signal(&served.child, "TERM");
    assert_eq!(served.end().0.code(), Some(0));
}

fn write(served: &Served, values: &[f32]) -> Client {
    let client = Client::connect(&served.address).expect("the address is valid");
    for value in values {
        let step = Nest::List(vec![Nest::Leaf(Tensor::scalar(*value))]);
        client.insert(&step, &[("replay", 1.0)]).expect("the server takes items");
    }
    client
}

/// Fills a server and has it write a checkpoint; gives the checkpoint.
fn checkpoint(root: &Path, values: &[f32]) -> PathBuf {
    let served = start(TOML, root, &[]);
    let path = write(&served, values).checkpoint().expect("the folder can be written");
    stop(served);
    path.into()
}

fn first(served: &Served) -> f32 {
    let client = Client::connect(&served.address).unwrap();
    let samples = client.sample("replay", 1).unwrap();
    samples[0].columns().unwrap()[0].as_slice::<f32>().unwrap()[0]
}

#[test]
fn a_server_goes_on_from_its_newest_checkpoint() {
    let root = folder("newest");
    let old = checkpoint(&root, &[1.0]);
    let served = start(TOML, &root, &[]);
    let client = write(&served, &[2.0, 3.0]);
    client.mutate_priorities("replay", &[], &[client.sample("replay", 1).unwrap()[0].info().key]).unwrap();
    let new = client.checkpoint().unwrap();
    assert!(Path::new(&new).join("DONE").exists() && !old.exists());
    let (code, told, _) = outcome(&["info", &served.address]);
    assert!(code == Some(0) && told.contains(&format!(" ago: {new}, ")), "{told}");
    let (_, told, _) = outcome(&["info", &served.address, "--json"]);
    let last: serde_json::Value = serde_json::from_str(&told).unwrap();
    let last = &last["server"]["checkpoints"]["last"];
    assert_eq!((last["location"].as_str(), last["trigger"].as_str()), (Some(&*new), Some("request")));
    assert!(last["written_bytes"].as_u64() > Some(0) && last["error"].is_null(), "{last}");
    stop(served);
    let served = start(TOML, &root, &[]);
    assert_eq!(first(&served), 2.0);
    let info = Client::connect(&served.address).unwrap().server_info().unwrap();
    let table = info.table("replay").unwrap();
    assert_eq!((table.current_size, table.inserts, table.samples, table.deletes), (2, 3, 2, 1));
    stop(served);
}

#[test]
fn a_damaged_checkpoint_ends_the_start() {
    let root = folder("damaged");
    let path = checkpoint(&root, &[1.0, 2.0]).join("items.tfrecord");
    let mut content = std::fs::read(&path).unwrap();
    content.truncate(20);
    std::fs::write(&path, content).unwrap();
    let config = file(".toml", TOML);
    let args = ["serve", "--config", config.to_str().unwrap(), "--checkpoint-dir", root.to_str().unwrap()];
    let (code, stdout, stderr) = outcome(&args);
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    let error = stderr.lines().last().unwrap();
    for part in
        ["relive: error: cannot load the newest checkpoint", path.to_str().unwrap(), "move its folder away"]
    {
        assert!(error.contains(part), "{part} in {error}");
    }
}

#[test]
fn the_checkpoint_of_other_tables_is_a_wrong_configuration() {
    let root = folder("other-tables");
    checkpoint(&root, &[1.0]);
    let config = file(".toml", "[[table]]\nname = 'other'\n");
    let args = ["serve", "--config", config.to_str().unwrap(), "--checkpoint-dir", root.to_str().unwrap()];
    let (code, _, stderr) = outcome(&args);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("a table `replay`, which is not configured; the tables are: other"), "{stderr}");
}

#[test]
fn the_rules_of_the_checkpoint_count_unless_told_otherwise() {
    let root = folder("rules");
    checkpoint(&root, &[1.0, 2.0, 3.0]);
    let smaller = "[[table]]\nname = 'replay'\nsampler = 'lifo'\nmax_size = 2\n";
    for (more, max_size, size, sampled) in [(&[][..], 10, 3, 1.0), (&["--keep-config"][..], 2, 2, 3.0)] {
        let mut served = start(smaller, &root, more);
        let info = Client::connect(&served.address).unwrap().server_info().unwrap();
        let table = info.table("replay").unwrap();
        assert_eq!((table.config.max_size, table.current_size, first(&served)), (max_size, size, sampled));
        signal(&served.child, "TERM");
        let log = BufReader::new(served.child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let warnings = log.filter(|line| line.contains("WARN") && line.contains("max_size is 10")).count();
        assert_eq!(warnings, 1);
        assert_eq!(served.end().0.code(), Some(0));
    }
}

#[test]
fn without_a_folder_a_checkpoint_is_refused() {
    let served = Served::start(".toml", TOML);
    let error = Client::connect(&served.address).unwrap().checkpoint().unwrap_err();
    assert_eq!(error.kind(), relive_client::ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("no checkpointer is configured"), "{error}");
    let config = file(".toml", TOML);
    let (code, _, stderr) = outcome(&["serve", "--config", config.to_str().unwrap(), "--keep-config"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("--checkpoint-dir"), "{stderr}");
}
