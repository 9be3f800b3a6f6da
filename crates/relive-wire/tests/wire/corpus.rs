//! Replays the fuzzers' corpus with the same checks; see `fuzz/README.md`.

use std::fs;
use std::path::Path;

use crate::checks;

/// Runs `check` over every file of a corpus, which must contain both accepted and refused inputs.
fn replay(target: &str, check: fn(&[u8]) -> bool) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files = fs::read_dir(&folder).unwrap_or_else(|e| panic!("the corpus of {target} is missing: {e}"));
    let (mut accepted, mut refused) = (0, 0);
    for file in files {
        let file = file.expect("an entry of the folder");
        let data = fs::read(file.path()).expect("a readable file");
        match std::panic::catch_unwind(|| check(&data)) {
            Ok(true) => accepted += 1,
            Ok(false) => refused += 1,
            Err(_) => panic!("{target} fails on {}", file.file_name().display()),
        }
    }
    assert!(accepted > 0 && refused > 0, "{target}: {accepted} inputs accepted, {refused} refused");
}

#[test]
fn bulk_frames() {
    replay("bulk_frame", checks::bulk_frame::check);
}

#[test]
fn chunk_messages() {
    replay("chunk_message", checks::chunk_message::check);
}

#[test]
fn codecs() {
    replay("codecs", checks::codecs::check);
}

#[test]
fn insert_items() {
    replay("insert_items", checks::insert_items::check);
}

#[test]
fn insert_requests() {
    replay("insert_request", checks::insert_request::check);
}

#[test]
fn sample_responses() {
    replay("sample_response", checks::sample_response::check);
}

#[test]
fn server_configurations() {
    replay("server_config", checks::server_config::check);
}

#[test]
fn signatures() {
    replay("signature", checks::signature::check);
}
