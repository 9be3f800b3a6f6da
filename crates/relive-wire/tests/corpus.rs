//! Replays what the fuzzers found worth keeping, under the same checks; see `fuzz/README.md`.

#[expect(unreachable_pub, reason = "the fuzz crate's own library")]
#[path = "../../../fuzz/src/lib.rs"]
mod checks;

use std::fs;
use std::path::Path;

/// Runs `check` over every file of a corpus, which must hold inputs that are accepted and inputs that are refused.
fn replay(target: &str, check: fn(&[u8]) -> bool) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files = fs::read_dir(&folder).unwrap_or_else(|e| panic!("the corpus of {target} is missing: {e}"));
    let (mut accepted, mut refused) = (0, 0);
    for file in files {
        let path = file.unwrap().path();
        let data = fs::read(&path).unwrap();
        let name = path.file_name().unwrap().display().to_string();
        // The output of a test that fails ends with the input that it fails on.
        println!("{target}/{name}");
        if check(&data) {
            accepted += 1;
        } else {
            refused += 1;
        }
    }
    assert!(accepted > 0 && refused > 0, "{target}: {accepted} inputs accepted, {refused} refused");
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
fn insert_requests() {
    replay("insert_request", checks::insert_request::check);
}

#[test]
fn sample_responses() {
    replay("sample_response", checks::sample_response::check);
}

#[test]
fn signatures() {
    replay("signature", checks::signature::check);
}
