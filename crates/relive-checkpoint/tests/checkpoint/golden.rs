//! Tests that checkpoints written by dm-reverb are read in the same way as by dm-reverb. `fixtures/record.py` creates
//! them.

use std::path::Path;

use relive_checkpoint::LoadOptions;
use relive_table::{RateLimiterConfig, Snapshot, StoredItem, TableCounters, TableSnapshot};
use relive_tensor::{DType, Tensor};
use serde_json::{Value, json};

use crate::support::{Folder, contents, fixtures, save_as_reverb};

fn load_from(folder: &Path) -> Snapshot {
    let loaded = relive_checkpoint::load(&folder.to_string_lossy(), &LoadOptions::new());
    loaded.unwrap_or_else(|error| panic!("{}: {error}", folder.display())).snapshot
}

fn load(name: &str) -> Snapshot {
    load_from(&fixtures().join(name))
}

/// Returns the snapshot in the form of the JSON file next to the fixture.
fn as_json(snapshot: &Snapshot) -> Value {
    let mut tables: Vec<&TableSnapshot> = snapshot.tables.iter().collect();
    tables.sort_by_key(|table| &table.config.name);
    tables.into_iter().map(table_json).collect()
}

fn table_json(table: &TableSnapshot) -> Value {
    let config = &table.config;
    let TableCounters { inserts, samples, deletes, deleted_episodes, unique_samples } = table.counters;
    let RateLimiterConfig { samples_per_insert, min_size_to_sample, min_diff, max_diff } =
        config.rate_limiter;
    json!({
        "name": config.name,
        "sampler": config.sampler.to_string(),
        "remover": config.remover.to_string(),
        "max_size": config.max_size,
        "max_times_sampled": config.max_times_sampled,
        "limiter": [samples_per_insert, min_size_to_sample, min_diff, max_diff],
        "counters": [inserts, samples, deletes, deleted_episodes, unique_samples],
        "has_signature": config.signature.is_some(),
        "items": table.items.iter().map(item_json).collect::<Value>(),
    })
}

fn item_json(item: &StoredItem) -> Value {
    let columns = item.data.trajectory.decode().expect("what was loaded can be decoded");
    json!({
        "key": item.data.key.to_string(),
        "priority": item.priority,
        "times_sampled": item.times_sampled,
        "inserted_at": item.data.inserted_at.as_nanos().to_string(),
        "columns": columns.iter().map(column_json).collect::<Value>(),
    })
}

fn column_json(column: &Tensor) -> Value {
    let shape = column.shape().dims();
    match column.strings() {
        Some(values) => {
            let values: Vec<String> = values.iter().map(|value| hex(value)).collect();
            json!({ "dtype": "string", "shape": shape, "values": values })
        }
        None => {
            let bytes = column.bytes().map(|bytes| hex(bytes));
            json!({ "dtype": numpy_name(column.dtype()), "shape": shape, "bytes": bytes })
        }
    }
}

fn numpy_name(dtype: DType) -> &'static str {
    match dtype {
        DType::Float32 => "float32",
        DType::Float64 => "float64",
        other => other.name(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn every_form_is_read_as_by_dm_reverb() {
    for name in ["current", "legacy", "empty", "uncompressed", "old_forms"] {
        let expected = std::fs::read_to_string(fixtures().join(format!("{name}.json"))).unwrap();
        let expected: Value = serde_json::from_str(&expected).unwrap();
        assert_eq!(as_json(&load(name)), expected, "{name}");
    }
}

#[test]
fn old_and_new_record_forms_load_alike() {
    for (old, new) in [("uncompressed", "current"), ("old_forms", "legacy")] {
        assert_eq!(contents(&load(old)), contents(&load(new)), "{old}");
    }
}

#[test]
fn a_signature_keeps_names_and_unknown_sizes() {
    let snapshot = load("current");
    let signature = snapshot.table("fifo").unwrap().config.signature.clone().unwrap();
    let specs: Vec<String> = signature
        .flatten_with_paths()
        .iter()
        .map(|(path, spec)| format!("{path}: {} {}{}", spec.name, spec.dtype, spec.display_shape()))
        .collect();
    assert_eq!(specs, ["observation: observation float[?,3]", "reward:  double[]", "text/0: text string[?]"]);
}

#[test]
fn dm_reverb_checkpoints_are_rewritten_without_loss() {
    for name in ["current", "legacy", "empty", "old_forms"] {
        let root = Folder::new();
        let first = load(name);
        let again = load_from(&save_as_reverb(&root, &first));
        assert_eq!(contents(&again), contents(&first), "{name}");
    }
}

#[test]
fn loaded_chunks_are_counted_and_shared() {
    let snapshot = load("current");
    let mut chunks: Vec<_> =
        snapshot.tables.iter().flat_map(|t| &t.items).flat_map(|i| i.data.trajectory.chunks()).collect();
    chunks.sort_by_key(|chunk| std::sync::Arc::as_ptr(chunk));
    chunks.dedup_by_key(|chunk| std::sync::Arc::as_ptr(chunk));
    assert_eq!(snapshot.ledger.snapshot().chunks, chunks.len() as u64);
    drop(chunks);
    let ledger = snapshot.ledger.clone();
    drop(snapshot);
    assert_eq!(ledger.snapshot().chunks, 0);
}
