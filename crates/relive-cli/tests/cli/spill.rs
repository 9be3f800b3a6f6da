//! `relive serve --spill-dir`.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use relive_client::blocking::Client;
use relive_client::{Nest, Tensor};

use crate::checkpoint_support::{folder, log_of, start, text};
use crate::support::{Served, file, outcome, signal};

const TOML: &str = "max_bytes = '2MB'\n[[table]]\nname = 'replay'\nmax_size = 1000\n";

const VALUES: u32 = 25_000;

/// Returns incompressible numbers, the first of which is the seed.
fn step(seed: u32) -> Nest<Tensor> {
    let mut state = u64::from(seed) + 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u32::try_from(state >> 32).unwrap_or(0)
    };
    let values: Vec<u32> = std::iter::once(seed).chain((1..VALUES).map(|_| next())).collect();
    Nest::List(vec![Nest::Leaf(Tensor::from_slice(&values, [VALUES]).expect("as many as the shape says"))])
}

fn write(served: &Served, seeds: std::ops::Range<u32>) -> Client {
    let client = Client::connect(&served.address).unwrap();
    seeds.for_each(|seed| client.insert(&step(seed), &[("replay", 1.0)]).unwrap());
    client
}

/// Samples until every item was seen, and compares all numbers.
fn read_all(client: &Client, items: usize) {
    let mut seen = HashSet::new();
    while seen.len() < items {
        for sample in client.sample("replay", 100).unwrap() {
            let columns = sample.columns().unwrap();
            let seed = columns[0].as_slice::<u32>().unwrap()[0];
            let Nest::List(expected) = step(seed) else { panic!("a list") };
            let Nest::Leaf(expected) = &expected[0] else { panic!("a leaf") };
            assert_eq!(columns[0].bytes(), expected.bytes(), "item {seed}");
            seen.insert(seed);
        }
    }
}

fn wait_until(client: &Client, is_there: impl Fn(u64, u64) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let chunks = client.status().unwrap().chunks;
        if is_there(chunks.resident_bytes(), chunks.spilled_bytes) {
            return;
        }
        assert!(Instant::now() < deadline, "{chunks:?}");
    }
}

fn files(folder: &Path) -> usize {
    std::fs::read_dir(folder.join("spilled/segments")).unwrap().count()
}

#[test]
fn a_table_larger_than_memory_survives_a_kill() {
    let (root, spill) = (folder("spill-root"), folder("spill"));
    let served = start(TOML, &root, &["--spill-dir", text(&spill)]);
    let client = write(&served, 0..100);
    wait_until(&client, |resident, spilled| resident <= 2_000_000 && spilled >= 8_000_000);
    assert!(files(&spill) > 0);
    read_all(&client, 100);
    client.checkpoint().unwrap();
    signal(&served.child, "KILL");
    drop(served);
    let served = start(TOML, &root, &["--spill-dir", text(&spill)]);
    let client = Client::connect(&served.address).unwrap();
    wait_until(&client, |resident, spilled| resident <= 2_000_000 && spilled >= 8_000_000);
    read_all(&client, 100);
    drop(client);
    log_of(served);
    assert_eq!(files(&spill), 0, "an orderly end leaves nothing");
}

#[test]
fn a_full_spill_disk_is_reported() {
    let (root, spill) = (folder("spill-full-root"), folder("spill-full"));
    let served = start(TOML, &root, &["--spill-dir", text(&spill), "--no-checkpoint-at-shutdown"]);
    std::fs::remove_dir_all(&spill).unwrap();
    std::fs::write(&spill, "a file where the folder was").unwrap();
    // The items take seven eighths of the budget.
    let client = write(&served, 0..19);
    let deadline = Instant::now() + Duration::from_secs(60);
    while client.status().unwrap().memory.spill_error.is_none() {
        assert!(Instant::now() < deadline, "{:?}", client.status());
    }
    let (code, shown, _) = outcome(&["info", &served.address]);
    let line = shown.lines().find(|line| line.starts_with("memory: ")).unwrap();
    let expected = "; chunks cannot be moved to disk and stay in memory: ";
    assert!(code == Some(0) && line.contains(expected) && line.contains(text(&spill)), "{shown}");
}

#[test]
fn a_spill_folder_needs_a_budget_and_belongs_to_one_server() {
    let spill = folder("spill-shared");
    let config = file(".toml", "[[table]]\nname = 'replay'\n");
    let args = ["serve", "--port", "0", "--config", text(&config), "--spill-dir", text(&spill)];
    let (code, _, stderr) = outcome(&args);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("--spill-dir requires --max-bytes"), "{stderr}");
    let _served = Served::start_with(".toml", TOML, &["--spill-dir", text(&spill)]);
    let (code, _, stderr) = outcome(&[&args[..], &["--max-bytes", "1GB"]].concat());
    assert_eq!(code, Some(1));
    assert!(stderr.contains(text(&spill)), "{stderr}");
}
