//! Replays the inputs that the fuzzer kept, with the fuzzer's check; see `fuzz/README.md`.

#[expect(unreachable_pub, reason = "it is the fuzz crate's own")]
#[path = "../../../../fuzz/src/checkpoint.rs"]
mod checkpoint;

use std::fs;
use std::path::Path;

#[test]
fn checkpoints() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/checkpoint");
    let (mut accepted, mut refused) = (0, 0);
    for file in fs::read_dir(folder).expect("the corpus") {
        let file = file.expect("an entry of the folder");
        let data = fs::read(file.path()).expect("a readable file");
        match std::panic::catch_unwind(|| checkpoint::check(&data)) {
            Ok(true) => accepted += 1,
            Ok(false) => refused += 1,
            Err(_) => panic!("it fails on {}", file.file_name().display()),
        }
    }
    assert!(accepted > 0 && refused > 0, "{accepted} inputs accepted, {refused} refused");
}
