//! Replays the fuzzer's corpus of whole connections with the same checks; see `fuzz/README.md`.

#[expect(unreachable_pub, reason = "it is the fuzz crate's own")]
#[path = "../../../../fuzz/src/connection.rs"]
mod connection;
#[expect(unreachable_pub, reason = "it is the fuzz crate's own")]
#[path = "../../../../fuzz/src/grpc_connection.rs"]
mod grpc_connection;

use std::fs;
use std::path::Path;

fn replay(target: &str, check: fn(&[u8]) -> bool) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let (mut used, mut unused) = (0, 0);
    for file in fs::read_dir(folder).expect("the corpus") {
        let file = file.expect("an entry of the folder");
        let data = fs::read(file.path()).expect("a readable file");
        match std::panic::catch_unwind(|| check(&data)) {
            Ok(true) => used += 1,
            Ok(false) => unused += 1,
            Err(_) => panic!("{target} fails on {}", file.file_name().display()),
        }
    }
    assert!(used > 0 && unused > 0, "{target}: {used} connections moved items, {unused} did not");
}

#[test]
fn connections() {
    replay("connection", connection::check);
}

#[test]
fn grpc_connections() {
    replay("grpc_connection", grpc_connection::check);
}
